#ifndef PHALANX_TESTS_SOURCE_TREE_H_
#define PHALANX_TESTS_SOURCE_TREE_H_

#include <map>
#include <string>
#include <vector>

namespace phalanx {

// What the checks of the tree look at: the lines of every file of ours, by its
// path from the repository's root. A plain map, so that a test can plant a
// file that breaks a rule.
using SourceTree = std::map<std::string, std::vector<std::string>>;

// The files of the top folders, models, golden data and build folders left
// out; only text that we write: C++, protos, scripts, CMake, Markdown.
SourceTree ReadSourceTree();

// "worker/model" of "worker/model/moe.h"; "" at the top.
std::string FolderOf(const std::string& path);

// ".h" of "worker/model/moe.h"; "" if there is none.
std::string ExtensionOf(const std::string& path);

// "moe" of "worker/model/moe.h".
std::string StemOf(const std::string& path);

// A header or a source of C++, CUDA's included.
bool IsCpp(const std::string& path);
bool IsHeader(const std::string& path);
bool IsSource(const std::string& path);
// What nvcc compiles.
bool IsCuda(const std::string& path);

// What a line of C++ includes in quotes; "" if nothing.
std::string IncludedBy(const std::string& line);

}  // namespace phalanx

#endif  // PHALANX_TESTS_SOURCE_TREE_H_

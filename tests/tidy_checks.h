#ifndef PHALANX_TESTS_TIDY_CHECKS_H_
#define PHALANX_TESTS_TIDY_CHECKS_H_

#include <string>
#include <vector>

#include "tests/source_tree.h"

namespace phalanx {

// The rules of the tree that a machine can check. Each returns one line for a
// person to read per breach: where, what is wrong, and the limit.
using Complaints = std::vector<std::string>;

// At most 500 lines a file, 70 a function.
Complaints LongFiles(const SourceTree& tree);
Complaints LongFunctions(const SourceTree& tree);

// A thing to do names its issue: (#12).
Complaints UnnumberedToDos(const SourceTree& tree);

// utils, helpers, manager, impl, base, misc say nothing.
Complaints EmptyNames(const SourceTree& tree);

// Every module has one, at most 200 lines.
Complaints MissingReadmes(const SourceTree& tree);

// A header that nothing includes.
Complaints UnusedHeaders(const SourceTree& tree);

// A path of one developer's machine.
Complaints MachinePaths(const SourceTree& tree);

// PHALANX_<PATH>_H_, three times.
Complaints WrongGuards(const SourceTree& tree);

// A .cc that no CMakeLists.txt names.
Complaints UnbuiltSources(const SourceTree& tree);

}  // namespace phalanx

#endif  // PHALANX_TESTS_TIDY_CHECKS_H_

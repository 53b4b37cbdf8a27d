#include "tests/tidy_checks.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

namespace phalanx {
namespace {

constexpr size_t kMaxFileLines = 500;
constexpr size_t kMaxFunctionLines = 70;
constexpr size_t kMaxReadmeLines = 200;

// Parts of a module that its README tells of.
const std::set<std::string> kToldAbove = {
    "proto/google/rpc", "gateway/chat/jinja", "kernels/reference"};

std::string At(const std::string& path, size_t line) {
  return path + ":" + std::to_string(line + 1) + ": ";
}

size_t Indentation(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Whether a line that begins at the indentation of a function can be the
// first line of one.
bool MayBegin(const std::string& line, size_t indentation) {
  const char first = line[indentation];
  return first != '#' && first != '}' && first != '/' && !line.ends_with(":");
}

// What a function is called, of its first lines: the word before a bracket.
std::string NameOf(const std::string& line) {
  static const std::regex kName(R"(([A-Za-z_~][\w:]*)\()");
  std::smatch match;
  return std::regex_search(line, match, kName) ? match[1].str() : "";
}

// Our style indents the body of a function by two and closes it with a
// bracket alone in the column where it began, so columns 0 (free functions)
// and 2 (those of a class) are all there is to look at.
void CheckFunctions(const std::string& path,
                    const std::vector<std::string>& lines, size_t indentation,
                    Complaints& complaints) {
  const std::string end = std::string(indentation, ' ') + "}";
  size_t begin = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line == end && i - begin + 1 > kMaxFunctionLines)
      complaints.push_back(At(path, begin) + NameOf(lines[begin]) + " has " +
                           std::to_string(i - begin + 1) + " lines; at most " +
                           std::to_string(kMaxFunctionLines));
    if (!line.empty() && Indentation(line) == indentation &&
        MayBegin(line, indentation))
      begin = i;
  }
}

bool IsTest(const std::string& path) { return path.starts_with("tests/"); }

}  // namespace

Complaints LongFiles(const SourceTree& tree) {
  Complaints complaints;
  for (const auto& [path, lines] : tree)
    if (lines.size() >= kMaxFileLines)
      complaints.push_back(path + ": has " + std::to_string(lines.size()) +
                           " lines; fewer than " +
                           std::to_string(kMaxFileLines));
  return complaints;
}

Complaints LongFunctions(const SourceTree& tree) {
  Complaints complaints;
  for (const auto& [path, lines] : tree) {
    if (!IsCpp(path)) continue;
    CheckFunctions(path, lines, 0, complaints);
    CheckFunctions(path, lines, 2, complaints);
  }
  return complaints;
}

Complaints UnnumberedToDos(const SourceTree& tree) {
  // In two pieces, so that this file has none.
  static const std::regex kAny(
      "\\b(TO"
      "DO|FIX"
      "ME)\\b");
  static const std::regex kNumbered(
      "\\bTO"
      "DO ?\\(#[0-9]+\\)");
  Complaints complaints;
  for (const auto& [path, lines] : tree)
    for (size_t i = 0; i < lines.size(); ++i)
      if (std::regex_search(lines[i], kAny) &&
          !std::regex_search(lines[i], kNumbered))
        complaints.push_back(At(path, i) +
                             "a thing to do must name its issue: (#12)");
  return complaints;
}

Complaints EmptyNames(const SourceTree& tree) {
  static const std::regex kEmpty(
      "(^|_)(utils?|helpers?|managers?|impl|base|misc)(_|$)");
  Complaints complaints;
  for (const auto& [path, lines] : tree) {
    std::set<std::string> names = {StemOf(path)};
    for (std::string folder = FolderOf(path); !folder.empty();
         folder = FolderOf(folder))
      names.insert(StemOf(folder));
    for (const std::string& name : names)
      if (std::regex_search(name, kEmpty))
        complaints.push_back(path + ": the name " + name + " says nothing");
  }
  return complaints;
}

Complaints MissingReadmes(const SourceTree& tree) {
  std::set<std::string> folders;
  for (const auto& [path, lines] : tree)
    if (!IsTest(path) && (IsCpp(path) || ExtensionOf(path) == ".proto" ||
                          ExtensionOf(path) == ".sh"))
      folders.insert(FolderOf(path));
  folders.insert("tests");
  Complaints complaints;
  for (const std::string& folder : folders) {
    if (kToldAbove.contains(folder)) continue;
    const auto readme = tree.find(folder + "/README.md");
    if (readme == tree.end())
      complaints.push_back(folder + ": has no README.md");
    else if (readme->second.size() > kMaxReadmeLines)
      complaints.push_back(
          folder + "/README.md: has " + std::to_string(readme->second.size()) +
          " lines; at most " + std::to_string(kMaxReadmeLines));
  }
  return complaints;
}

Complaints UnusedHeaders(const SourceTree& tree) {
  std::set<std::string> included;
  for (const auto& [path, lines] : tree)
    for (const std::string& line : lines)
      if (std::string include = IncludedBy(line);
          !include.empty() &&
          // A header's own source does not use it.
          (StemOf(include) != StemOf(path) ||
           FolderOf(include) != FolderOf(path)))
        included.insert(std::move(include));
  Complaints complaints;
  for (const auto& [path, lines] : tree)
    if (IsHeader(path) && !included.contains(path))
      complaints.push_back(path + ": nothing includes it");
  return complaints;
}

Complaints MachinePaths(const SourceTree& tree) {
  static const std::regex kPath("(^|[^\\w.])/(work|home|root)/");
  Complaints complaints;
  for (const auto& [path, lines] : tree)
    for (size_t i = 0; i < lines.size(); ++i)
      if (std::regex_search(lines[i], kPath))
        complaints.push_back(At(path, i) + "holds a path of one machine");
  return complaints;
}

Complaints WrongGuards(const SourceTree& tree) {
  Complaints complaints;
  for (const auto& [path, lines] : tree) {
    if (!IsHeader(path)) continue;
    std::string guard = "PHALANX_" + path + "_";
    for (char& c : guard)
      c = std::isalnum(static_cast<unsigned char>(c))
              ? static_cast<char>(std::toupper(static_cast<unsigned char>(c)))
              : '_';
    for (const std::string& line :
         {"#ifndef " + guard, "#define " + guard, "#endif  // " + guard})
      if (std::find(lines.begin(), lines.end(), line) == lines.end())
        complaints.push_back(path + ": lacks " + line);
  }
  return complaints;
}

Complaints UnbuiltSources(const SourceTree& tree) {
  Complaints complaints;
  for (const auto& [path, lines] : tree) {
    if (!IsSource(path)) continue;
    bool named = false;
    // By the list of its folder, or of one above.
    for (std::string folder = FolderOf(path); !folder.empty() && !named;
         folder = FolderOf(folder)) {
      const auto list = tree.find(folder + "/CMakeLists.txt");
      if (list == tree.end()) continue;
      // A test may be listed without its ending, which a loop then adds.
      const std::regex source(
          "\\b" + StemOf(path).substr(0, StemOf(path).rfind("_test")) +
          "(_test)?(\\.cc)?\\b");
      named = std::any_of(list->second.begin(), list->second.end(),
                          [&](const std::string& line) {
                            return std::regex_search(line, source);
                          });
    }
    if (!named) complaints.push_back(path + ": no CMakeLists.txt names it");
  }
  return complaints;
}

}  // namespace phalanx

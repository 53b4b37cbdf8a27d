#ifndef PHALANX_COMMON_FLAG_LIST_H_
#define PHALANX_COMMON_FLAG_LIST_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// What --help and the completion of a shell say of one flag, or of one
// positional argument, whose name has no dashes.
struct FlagEntry {
  std::string name;   // "--tp-size"
  std::string value;  // "N", "DIR", "auto|fma"; empty: it takes none.
  std::vector<std::string> choices;  // All there are, or none to choose from.
  std::string help;                  // What it is, a sentence.
  std::string limits;                // "in [1, 64]"; empty: none told.
  std::string fallback;              // The value if not given; empty: none.

  bool operator==(const FlagEntry&) const = default;
};

// Values of this name are paths: of a folder, of a file.
inline constexpr char kFolderValue[] = "DIR";
inline constexpr char kFileValue[] = "FILE";

FlagEntry DescribeFlag(const CLI::Option& option);

// One verb of a program, or a program without verbs.
struct VerbEntry {
  std::string name;
  std::string help;
  std::vector<FlagEntry> flags;  // Those of groups, and --help, too.

  bool operator==(const VerbEntry&) const = default;
};

VerbEntry DescribeVerb(const CLI::App& app);

// The same as JSON and back, for a program that must know another's flags.
// INVALID_ARGUMENT if `json` is not what VerbJson writes.
std::string VerbJson(const VerbEntry& verb);
absl::StatusOr<VerbEntry> ParseVerbJson(absl::string_view json);

}  // namespace phalanx

#endif  // PHALANX_COMMON_FLAG_LIST_H_

#include "common/help_format.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/flag_list.h"

namespace phalanx {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kColumn = 26;       // Where the words of a row begin.
constexpr char kFirmBlank = '\x1F';  // One at which no line ends.

std::string Firm(absl::string_view words) {
  return absl::StrReplaceAll(words, {{" ", absl::string_view(&kFirmBlank, 1)}});
}

// "  head        words that go on
//                in the same column"
std::string Row(const std::string& head, absl::string_view words) {
  std::string text;
  std::string line = absl::StrCat("  ", head);
  if (line.size() + 2 > kColumn) {
    absl::StrAppend(&text, line, "\n");
    line.clear();
  }
  line.resize(kColumn, ' ');
  for (const absl::string_view word :
       absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    const bool first = line.size() == kColumn;
    if (!first && line.size() + 1 + word.size() > kWidth) {
      absl::StrAppend(&text, line, "\n");
      line.assign(kColumn, ' ');
      line.append(word.begin(), word.end());
    } else {
      absl::StrAppend(&line, first ? "" : " ", word);
    }
  }
  std::replace(line.begin(), line.end(), kFirmBlank, ' ');
  std::replace(text.begin(), text.end(), kFirmBlank, ' ');
  return absl::StrCat(text, line, "\n");
}

}  // namespace

std::string HelpFormat::make_help(const CLI::App* app, std::string name,
                                  CLI::AppFormatMode mode) const {
  // CLI11 leaves the blank lines of a group that is hidden.
  return absl::StrReplaceAll(
      CLI::Formatter::make_help(app, std::move(name), mode),
      {{"\n\n\n", "\n\n"}});
}

std::string HelpFormat::make_usage(const CLI::App* app,
                                   std::string name) const {
  std::string usage = absl::StrCat("\nUsage: ", name);
  for (const CLI::Option* option : app->get_options())
    if (option->get_positional()) {
      const FlagEntry entry = DescribeFlag(*option);
      const std::string word = entry.choices.empty() ? entry.name : entry.value;
      absl::StrAppend(&usage, " ",
                      option->get_required() ? word : "[" + word + "]");
    }
  if (app->get_require_subcommand_min() > 0) absl::StrAppend(&usage, " VERB");
  return absl::StrCat(usage, " [flags]\n");
}

std::string HelpFormat::make_group(std::string group, bool is_positional,
                                   std::vector<const CLI::Option*> opts) const {
  std::string text = absl::StrCat("\n",
                                  group == "Options" ? "Flags"
                                  : is_positional    ? "Arguments"
                                                     : group,
                                  ":\n");
  for (const CLI::Option* option : opts)
    text += make_option(option, is_positional);
  return text;
}

std::string HelpFormat::make_option(const CLI::Option* option,
                                    bool /*is_positional*/) const {
  const FlagEntry flag = DescribeFlag(*option);
  const bool named = flag.name.rfind("--", 0) == 0;
  std::string head = flag.name;
  if (named && !flag.value.empty()) absl::StrAppend(&head, " ", flag.value);
  std::vector<std::string> remarks;
  if (!named && !flag.choices.empty()) remarks.push_back(flag.value);
  if (!flag.limits.empty()) remarks.push_back(Firm(flag.limits));
  if (!flag.fallback.empty())
    remarks.push_back(Firm(absl::StrCat("default ", flag.fallback)));
  std::string words = flag.help;
  if (!remarks.empty())
    absl::StrAppend(&words, " (", absl::StrJoin(remarks, "; "), ")");
  return Row(head, words);
}

std::string HelpFormat::make_subcommand(const CLI::App* app) const {
  return Row(app->get_name(), app->get_description());
}

// Flags that belong together: CLI11 would indent them, and say once more what
// the group's description says.
std::string HelpFormat::make_expanded(const CLI::App* app) const {
  std::string text = absl::StrCat("\n", app->get_group(), " (",
                                  app->get_description(), "):\n");
  for (const CLI::Option* option : app->get_options())
    if (option != app->get_help_ptr())  // Each group has one of its own.
      text += make_option(option, /*is_positional=*/false);
  return text;
}

}  // namespace phalanx

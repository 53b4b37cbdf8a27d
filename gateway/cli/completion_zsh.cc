#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gateway/cli/completion.h"

namespace phalanx {
namespace {

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// The first clause of a sentence: a list has room for no more.
std::string Clause(absl::string_view help) {
  return std::string(help.substr(0, help.find_first_of(";\n")));
}

// Brackets end a description, colons begin the next part.
std::string Described(absl::string_view help) {
  return absl::StrReplaceAll(
      Clause(help), {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

// What offers the values of a flag, in the words of zsh's _arguments.
std::string Action(const FlagEntry& flag) {
  if (flag.value == kFolderValue) return "_files -/";
  if (flag.value == kFileValue) return "_files";
  if (flag.choices.empty()) return " ";  // Nothing to offer.
  const std::string words = absl::StrJoin(flag.choices, " ");
  return absl::EndsWith(flag.value, ",...")
             ? absl::StrCat("_values -s , value ", words)
             : absl::StrCat("(", words, ")");
}

std::string ArgumentSpec(const FlagEntry& flag) {
  if (!absl::StartsWith(flag.name, "--"))
    return absl::StrCat("1:", flag.name, ":", Action(flag));
  if (flag.value.empty())
    return absl::StrCat(flag.name, "[", Described(flag.help), "]");
  return absl::StrCat(flag.name, "=[", Described(flag.help),
                      "]:", Described(flag.name.substr(2)), ":", Action(flag));
}

std::string ArgumentSpecs(const std::vector<FlagEntry>& flags,
                          absl::string_view indent) {
  std::string text;
  for (const FlagEntry& flag : flags)
    absl::StrAppend(&text, " \\\n", indent, Quoted(ArgumentSpec(flag)));
  return text;
}

}  // namespace

std::string ZshCompletion(const CommandLine& command) {
  const std::string& name = command.program.name;
  std::string verbs;
  std::string cases;
  for (const VerbEntry& verb : command.verbs) {
    absl::StrAppend(&verbs, "        ",
                    Quoted(absl::StrCat(verb.name, ":", Described(verb.help))),
                    "\n");
    absl::StrAppend(&cases, "        ", verb.name, ")\n          _arguments",
                    ArgumentSpecs(verb.flags, "            "),
                    "\n          ;;\n");
  }
  return absl::StrCat(
      "#compdef ", name, "\n# Completion of ", name, " for zsh, made by `",
      name, " completion zsh`.\n\n_", name, "() {\n",
      "  local curcontext=$curcontext state line\n"
      "  local -a verbs\n"
      "  typeset -A opt_args\n"
      "  _arguments -C",
      ArgumentSpecs(command.program.flags, "    "),
      " \\\n    '1:verb:->verb' \\\n    '*::argument:->argument' && return\n"
      "  case $state in\n"
      "    verb)\n"
      "      verbs=(\n",
      verbs,
      "      )\n"
      "      _describe -t verbs verb verbs\n"
      "      ;;\n"
      "    argument)\n"
      "      case $words[1] in\n",
      cases,
      "      esac\n"
      "      ;;\n"
      "  esac\n"
      "}\n\n"
      "# Called at once where it is loaded from $fpath, registered where it is "
      "sourced.\n"
      "if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then\n  _",
      name, " \"$@\"\nelse\n  compdef _", name, " ", name, "\nfi\n");
}

}  // namespace phalanx

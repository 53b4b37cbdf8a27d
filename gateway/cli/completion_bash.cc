#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gateway/cli/completion.h"

namespace phalanx {
namespace {

// The part that knows no verb; PROGRAM is put in. bash cuts words at "=", so
// `--flag=va` comes as three.
constexpr char kFunction[] = R"sh(
_PROGRAM() {
  local cur=${COMP_WORDS[COMP_CWORD]-} flag=${COMP_WORDS[COMP_CWORD-1]-}
  local verb='' kind='' words='' list='' prefix='' i
  if [[ $cur == = ]]; then
    cur=''
  elif [[ $flag == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]-}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} != -* ]]; then
      verb=${COMP_WORDS[i]}
      break
    fi
  done
  COMPREPLY=()
  if ! _PROGRAM_takes "$verb $flag"; then
    if [[ $cur != -* ]]; then
      _PROGRAM_takes "$verb"
    fi
    if [[ -z $kind$words || $cur == -* ]]; then
      words="$words $(_PROGRAM_flags "$verb")"
    fi
  fi
  if [[ $list && $cur == *,* ]]; then
    prefix=${cur%,*},
  fi
  case $kind in
    DIR) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    FILE) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    '') mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$words" -- "${cur##*,}") ;;
  esac
  if [[ $kind ]]; then
    compopt -o filenames 2>/dev/null
  fi
  return 0
}

complete -F _PROGRAM PROGRAM
)sh";

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// A line of the case that says what a flag, or a verb's argument, takes.
std::string TakesLine(absl::string_view where, const FlagEntry& flag) {
  std::string action;
  if (!flag.choices.empty())
    action = absl::StrCat("words=", Quoted(absl::StrJoin(flag.choices, " ")));
  else if (flag.value == kFolderValue || flag.value == kFileValue)
    action = absl::StrCat("kind=", flag.value);
  else
    action = "kind=text";  // Nothing to offer.
  if (absl::EndsWith(flag.value, ",...")) absl::StrAppend(&action, " list=yes");
  return absl::StrCat("    ", Quoted(where), ") ", action, " ;;\n");
}

bool IsFlag(const FlagEntry& flag) { return absl::StartsWith(flag.name, "--"); }

std::string FlagsLine(absl::string_view verb,
                      const std::vector<FlagEntry>& flags) {
  std::vector<std::string> names;
  for (const FlagEntry& flag : flags)
    if (IsFlag(flag)) names.push_back(flag.name);
  return absl::StrCat("    ", Quoted(verb), ") echo ",
                      Quoted(absl::StrJoin(names, " ")), " ;;\n");
}

}  // namespace

std::string BashCompletion(const CommandLine& command) {
  const std::string& name = command.program.name;
  std::string takes;
  std::string flags = FlagsLine("", command.program.flags);
  std::vector<std::string> verbs;
  for (const VerbEntry& verb : command.verbs) {
    verbs.push_back(verb.name);
    absl::StrAppend(&flags, FlagsLine(verb.name, verb.flags));
    for (const FlagEntry& flag : verb.flags) {
      if (IsFlag(flag) && !flag.value.empty())
        absl::StrAppend(
            &takes, TakesLine(absl::StrCat(verb.name, " ", flag.name), flag));
      // Free text leaves room for flags.
      if (!IsFlag(flag) && !flag.choices.empty())
        absl::StrAppend(&takes, TakesLine(verb.name, flag));
    }
  }
  return absl::StrCat(
      "# Completion of ", name, " for bash, made by `", name,
      " completion bash`.\n\n",
      "# What a flag takes, or a verb: words to choose from, or a kind.\n_",
      name, "_takes() {\n  case $1 in\n", takes,
      "    '') words=", Quoted(absl::StrJoin(verbs, " ")),
      " ;;\n    *) return 1 ;;\n  esac\n}\n\n_", name,
      "_flags() {\n  case $1 in\n", flags, "  esac\n}\n",
      absl::StrReplaceAll(kFunction, {{"PROGRAM", name}}));
}

}  // namespace phalanx

#include "common/flag_list.h"

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace phalanx {
namespace {

// What CLI11 calls a type, in our words.
std::string ValueWord(absl::string_view type) {
  if (type == "INT" || type == "UINT") return "N";
  if (type == "FLOAT") return "X";
  return std::string(type);
}

// CLI11 knows its validators by their descriptions alone, each after a colon:
// "TEXT:{auto,fma}", "INT:INT in [1 - 64]", "FLOAT:in (0, 1]".
void ReadType(absl::string_view type, FlagEntry& entry) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(type, absl::MaxSplits(':', 1));
  entry.value = ValueWord(parts.first);
  absl::string_view limits = parts.second;
  if (absl::ConsumePrefix(&limits, "{") && absl::ConsumeSuffix(&limits, "}")) {
    entry.choices = absl::StrSplit(limits, ',');
    entry.value = absl::StrJoin(entry.choices, "|");
    return;
  }
  const size_t in = limits.find("in ");
  if (in == absl::string_view::npos) return;
  entry.limits = absl::StrReplaceAll(limits.substr(in), {{" - ", ", "}});
  // A limit that only the type sets is none to tell.
  absl::string_view least = entry.limits;
  if (absl::ConsumePrefix(&least, "in [") &&
      (absl::ConsumeSuffix(&least, ", 2147483647]") ||
       absl::ConsumeSuffix(&least, ", 2147483648]")))
    entry.limits = absl::StrCat("at least ", least);
}

void AddFlags(const CLI::App& app, std::vector<FlagEntry>& flags) {
  for (const CLI::Option* option : app.get_options()) {
    // A nameless group has a --help of its own, which says what the verb's
    // does.
    const bool again = app.get_name().empty() && app.get_parent() != nullptr &&
                       option == app.get_help_ptr();
    if (!option->get_group().empty() && !again)
      flags.push_back(DescribeFlag(*option));
  }
  for (const CLI::App* group : app.get_subcommands({}))
    if (group->get_name().empty()) AddFlags(*group, flags);
}

}  // namespace

FlagEntry DescribeFlag(const CLI::Option& option) {
  FlagEntry entry;
  entry.name = option.get_lnames().empty()
                   ? option.get_name(/*positional=*/true)
                   : absl::StrCat("--", option.get_lnames().front());
  entry.help = option.get_description();
  if (option.get_items_expected_max() == 0) return entry;
  ReadType(option.get_type_name(), entry);
  if (option.get_delimiter() != '\0')
    absl::StrAppend(&entry.value, std::string(1, option.get_delimiter()),
                    "...");
  // Of a list CLI11 writes "[a,b]".
  const std::string written = option.get_default_str();
  absl::string_view fallback = written;
  if (absl::ConsumePrefix(&fallback, "[")) absl::ConsumeSuffix(&fallback, "]");
  entry.fallback = std::string(fallback);
  return entry;
}

VerbEntry DescribeVerb(const CLI::App& app) {
  VerbEntry verb{
      .name = app.get_name(), .help = app.get_description(), .flags = {}};
  AddFlags(app, verb.flags);
  return verb;
}

std::string VerbJson(const VerbEntry& verb) {
  nlohmann::ordered_json flags = nlohmann::ordered_json::array();
  for (const FlagEntry& flag : verb.flags)
    flags.push_back({{"name", flag.name},
                     {"value", flag.value},
                     {"choices", flag.choices},
                     {"help", flag.help},
                     {"limits", flag.limits},
                     {"fallback", flag.fallback}});
  const nlohmann::ordered_json object = {
      {"name", verb.name}, {"help", verb.help}, {"flags", flags}};
  return object.dump() + "\n";
}

absl::StatusOr<VerbEntry> ParseVerbJson(absl::string_view json) {
  const nlohmann::json object = nlohmann::json::parse(
      json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  try {
    VerbEntry verb;
    object.at("name").get_to(verb.name);
    object.at("help").get_to(verb.help);
    for (const nlohmann::json& item : object.at("flags")) {
      FlagEntry& flag = verb.flags.emplace_back();
      item.at("name").get_to(flag.name);
      item.at("value").get_to(flag.value);
      item.at("choices").get_to(flag.choices);
      item.at("help").get_to(flag.help);
      item.at("limits").get_to(flag.limits);
      item.at("fallback").get_to(flag.fallback);
    }
    return verb;
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("no list of flags: ", error.what()));
  }
}

}  // namespace phalanx

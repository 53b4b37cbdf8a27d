#include "gateway/cli/child_talk.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace phalanx {
namespace {

using Entry = nlohmann::ordered_json;

std::string Text(const Entry& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_string() ? found->get<std::string>()
                                                    : "";
}

// As it is, one JSON line an event, for whoever collects stderr; for a person
// at a terminal shorter.
void Relay(const std::string& name, absl::string_view line,
           const Entry& entry) {
  std::string text(line);
  if (isatty(STDERR_FILENO) == 1 && entry.is_object()) {
    text = absl::StrCat(name, ": ", Text(entry, "event"));
    for (const auto& [key, value] : entry.items())
      if (key != "time" && key != "module" && key != "event" && key != "rank" &&
          !(key == "level" && value == "INFO"))
        absl::StrAppend(&text, " ", key, "=", value.dump());
  }
  text.push_back('\n');
  [[maybe_unused]] const ssize_t n =
      write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

void ChildTalk::Take(const std::string& name, absl::string_view line) {
  const Entry entry = Entry::parse(line.begin(), line.end(), nullptr,
                                   /*allow_exceptions=*/false);
  bar_.Clear();
  Relay(name, line, entry);
  if (!entry.is_object()) {
    // A refused flag, or a CHECK: the first line says what, the rest more.
    errors_.try_emplace(name, std::string(line));
    return;
  }
  const std::string event = Text(entry, "event");
  if (Text(entry, "level") == "ERROR") errors_[name] = Text(entry, "cause");
  if (event == "formed" && entry.contains("epoch") &&
      entry["epoch"].is_number_integer())
    epoch_ = std::max(epoch_, entry["epoch"].get<int64_t>());
  if (name == "gateway" && event == "listening") {
    address_ = Text(entry, "address");
    admin_address_ = Text(entry, "admin");
    metrics_address_ = Text(entry, "metrics");
  }
}

std::string ChildTalk::ErrorOf(const std::string& name) const {
  const auto found = errors_.find(name);
  return found == errors_.end() ? "" : found->second;
}

}  // namespace phalanx

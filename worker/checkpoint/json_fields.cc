#include "worker/checkpoint/json_fields.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace phalanx {
namespace {

constexpr size_t kMaxRenderedValue = 80;

absl::StatusOr<std::string> ReadOpenFile(int fd, const std::string& path,
                                         int64_t max_bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0)
    return absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a regular file"));
  if (info.st_size > max_bytes)
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has ", info.st_size, " bytes; at most ", max_bytes));
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t n = read(fd, text.data() + filled, text.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return absl::DataLossError(absl::StrCat(path, ": ", strerror(errno)));
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  text.resize(filled);
  return text;
}

// The deepest nesting of brackets outside strings; enough to bound a parser
// that is about to read the same text.
int JsonDepth(absl::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
      if (deepest > kMaxConfigDepth) break;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         int64_t max_bytes) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const std::string message = absl::StrCat(path, ": ", strerror(errno));
    if (errno == ENOENT || errno == ENOTDIR)
      return absl::NotFoundError(message);
    return absl::InvalidArgumentError(message);
  }
  auto text = ReadOpenFile(fd, path, max_bytes);
  close(fd);
  return text;
}

absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text) {
  if (static_cast<int64_t>(text.size()) > kMaxConfigBytes)
    return absl::InvalidArgumentError(absl::StrCat(
        "JSON has ", text.size(), " bytes; at most ", kMaxConfigBytes));
  if (JsonDepth(text) > kMaxConfigDepth)
    return absl::InvalidArgumentError(
        absl::StrCat("JSON nests deeper than ", kMaxConfigDepth, " levels"));
  nlohmann::json value;
  try {
    value = nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON at byte ", error.byte));
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON: ", error.what()));
  }
  if (!value.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat("JSON is ", RenderJson(value), "; must be an object"));
  return value;
}

std::string RenderJson(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true);
  if (text.size() > kMaxRenderedValue) {
    text.resize(kMaxRenderedValue);
    text += "...";
  }
  return text;
}

absl::Status BadField(absl::string_view key, const nlohmann::json& value,
                      absl::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat(key, " is ", RenderJson(value), "; ", rule));
}

const nlohmann::json* JsonFields::Find(absl::string_view key) const {
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

const nlohmann::json* JsonFields::FindFor(absl::string_view key,
                                          Presence presence) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr && presence == kRequired)
    Refuse(absl::InvalidArgumentError(
        absl::StrCat(path_, key, " is absent; it is required")));
  return value;
}

void JsonFields::Int(absl::string_view key, int64_t low, int64_t high,
                     int64_t* out, Presence presence) {
  const nlohmann::json* value = FindFor(key, presence);
  if (value == nullptr) return;
  const std::string rule =
      absl::StrCat("must be an integer in ", low, "..", high);
  if (!value->is_number_integer()) return Refuse(key, *value, rule);
  // An unsigned value may not fit into 63 bits.
  if (value->is_number_unsigned() &&
      value->get<uint64_t>() >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return Refuse(key, *value, rule);
  const int64_t number = value->get<int64_t>();
  if (number < low || number > high) return Refuse(key, *value, rule);
  *out = number;
}

void JsonFields::Number(absl::string_view key, NumberRange range, double* out,
                        Presence presence) {
  const nlohmann::json* value = FindFor(key, presence);
  if (value == nullptr) return;
  const double number = value->is_number() ? value->get<double>() : NAN;
  const bool low_enough = number <= range.high;
  const bool high_enough =
      range.open ? number > range.low : number >= range.low;
  if (!low_enough || !high_enough)
    return Refuse(
        key, *value,
        absl::StrCat("must be a number ", range.open ? "above " : "from ",
                     range.low, " to ", range.high));
  *out = number;
}

void JsonFields::Bool(absl::string_view key, bool* out) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) return Refuse(key, *value, "must be true or false");
  *out = value->get<bool>();
}

void JsonFields::String(absl::string_view key, std::string* out) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_string()) return Refuse(key, *value, "must be a string");
  *out = value->get<std::string>();
}

void JsonFields::Refuse(absl::string_view key, const nlohmann::json& value,
                        absl::string_view rule) {
  Refuse(BadField(absl::StrCat(path_, key), value, rule));
}

void JsonFields::Refuse(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

}  // namespace phalanx

#ifndef PHALANX_WORKER_CHECKPOINT_JSON_FIELDS_H_
#define PHALANX_WORKER_CHECKPOINT_JSON_FIELDS_H_

// Reading the JSON that comes with a model: bounded, and every refusal names
// the key, its value and what is allowed.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

inline constexpr int64_t kMaxConfigBytes = int64_t{8} << 20;
inline constexpr int kMaxConfigDepth = 64;

// The whole of a regular file. NOT_FOUND where there is none; INVALID_ARGUMENT
// for what is not a regular file or is longer than `max_bytes`; all name it.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         int64_t max_bytes);

// INVALID_ARGUMENT unless `text` is one JSON object of at most kMaxConfigBytes
// and kMaxConfigDepth.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text);

// A value as an error shows it: JSON in ASCII, cut short.
std::string RenderJson(const nlohmann::json& value);

// INVALID_ARGUMENT "<key> is <value>; <rule>".
absl::Status BadField(absl::string_view key, const nlohmann::json& value,
                      absl::string_view rule);

// low..high, or above low where it is open.
struct NumberRange {
  double low = 0;
  double high = 0;
  bool open = false;
};

// Reads the members of one object and remembers the first thing wrong, so that
// a reader lists its fields and asks once. A view: lives inside one function.
// A member that is null counts as absent; an absent one leaves `*out` as it is
// and is wrong only where it is required.
class JsonFields {
 public:
  enum Presence { kRequired, kOptional };

  // `path` precedes each key in errors: "text_config.", or nothing.
  JsonFields(const nlohmann::json& object, absl::string_view path)
      : object_(object), path_(path) {}

  const nlohmann::json* Find(absl::string_view key) const;
  void Int(absl::string_view key, int64_t low, int64_t high, int64_t* out,
           Presence presence = kRequired);
  void Number(absl::string_view key, NumberRange range, double* out,
              Presence presence = kRequired);
  void Bool(absl::string_view key, bool* out);
  void String(absl::string_view key, std::string* out);

  // Marks `key` as wrong: "<key> is <value>; <rule>".
  void Refuse(absl::string_view key, const nlohmann::json& value,
              absl::string_view rule);
  void Refuse(absl::Status status);

  const std::string& path() const { return path_; }
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* FindFor(absl::string_view key, Presence presence);

  const nlohmann::json& object_;
  std::string path_;
  absl::Status status_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_JSON_FIELDS_H_

#ifndef PHALANX_GATEWAY_TOKENIZER_JSON_NODE_H_
#define PHALANX_GATEWAY_TOKENIZER_JSON_NODE_H_

// A value of a JSON file that knows where it stands, so that every refusal
// names file, key and value.

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// Bounds of ParseJson.
struct JsonLimits {
  size_t max_values = 0;  // Objects, arrays and scalars together.
  int max_depth = 0;
};

// Parses a whole file. DATA_LOSS, naming `file`: bad JSON, invalid UTF-8, a
// limit passed. Memory stays within a small multiple of the limits.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text,
                                         const std::string& file,
                                         JsonLimits limits);

// `text` as a JSON string, shortened to fit a message.
std::string Quoted(const std::string& text);

// Points into a document and never outlives it or the file's name.
class JsonNode {
 public:
  // The root of `value`; `file` is how messages call the document.
  JsonNode(const nlohmann::json& value, const std::string& file)
      : value_(&value), file_(&file) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& path() const { return path_; }

  // Children. DATA_LOSS: this is no object, or the key is missing.
  absl::StatusOr<JsonNode> Member(const std::string& key) const;
  bool Has(const std::string& key) const;  // Present and not null.
  // The member at `item`, an iterator into this, which must be an object.
  JsonNode Item(const nlohmann::json::const_iterator& item) const;
  // Element `index` of this, which must be an array that has it.
  JsonNode Element(size_t index) const;
  // The element at `key` of this, which must be an object that has it.
  JsonNode Named(const std::string& key) const;

  // DATA_LOSS: of another type.
  absl::StatusOr<std::string> String() const;
  absl::StatusOr<bool> Bool() const;
  absl::Status IsObject() const;
  absl::Status IsArray() const;

  // This member must be the string, or the boolean. INVALID_ARGUMENT: it is
  // another; DATA_LOSS: another type, or missing.
  absl::Status ExpectString(const std::string& key,
                            absl::string_view wanted) const;
  absl::Status ExpectBool(const std::string& key, bool wanted) const;
  // The same, but a missing or null member will do.
  absl::Status ExpectStringIfPresent(const std::string& key,
                                     absl::string_view wanted) const;
  absl::Status ExpectBoolIfPresent(const std::string& key, bool wanted) const;

  // "<file>: <path> <text>", for a broken file and for a setting that is not
  // supported.
  absl::Status Broken(absl::string_view text) const;
  absl::Status Unsupported(absl::string_view text) const;

  // The value as JSON, shortened; "an object" or "an array" for those.
  std::string Shown() const;

 private:
  JsonNode Child(const nlohmann::json& value, std::string path) const;
  std::string Message(absl::string_view text) const;

  const nlohmann::json* value_;
  const std::string* file_;
  std::string path_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_TOKENIZER_JSON_NODE_H_

#include "worker/checkpoint/weight_index.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/checkpoint/json_fields.h"
#include "worker/checkpoint/safetensors.h"

namespace phalanx {
namespace {

constexpr size_t kMaxFileNameBytes = 255;

std::string Shown(absl::string_view text) {
  return absl::CEscape(text.substr(0, kMaxTensorNameBytes));
}

bool IsPlainFileName(absl::string_view name) {
  return name.size() <= kMaxFileNameBytes && !absl::StartsWith(name, ".") &&
         absl::EndsWith(name, ".safetensors") &&
         name.find('/') == absl::string_view::npos &&
         name.find('\\') == absl::string_view::npos &&
         name.find('\0') == absl::string_view::npos;
}

// Takes {"weight_map": {name: file}} and passes over all other members.
class IndexReader : public nlohmann::json::json_sax_t {
 public:
  using Json = nlohmann::json;

  bool null() override { return Scalar("null"); }
  bool boolean(bool) override { return Scalar("a boolean"); }
  bool number_integer(int64_t) override { return Scalar("a number"); }
  bool number_unsigned(uint64_t) override { return Scalar("a number"); }
  bool number_float(double, const std::string&) override {
    return Scalar("a number");
  }
  bool binary(Json::binary_t&) override { return Scalar("binary"); }

  bool string(std::string& value) override {
    if (!in_map_) return Scalar("a string");
    if (!IsPlainFileName(value))
      return Stop(absl::StrCat(
          "weight_map[\"", Shown(tensor_), "\"] is \"", Shown(value),
          "\"; must be the plain name of a .safetensors file in this folder"));
    return map_.emplace(tensor_, value).second ||
           Stop(absl::StrCat("weight_map has \"", Shown(tensor_), "\" twice"));
  }

  bool start_object(size_t) override {
    if (in_map_) return Scalar("an object");
    if (depth_ == 1 && member_ == "weight_map") {
      if (found_) return Stop("weight_map is there twice");
      found_ = in_map_ = true;
    }
    return Deeper();
  }
  bool end_object() override {
    --depth_;
    in_map_ = false;
    return true;
  }

  bool key(std::string& value) override {
    if (in_map_) {
      if (value.size() > kMaxTensorNameBytes)
        return Stop(absl::StrCat("weight_map has a name of ", value.size(),
                                 " bytes; at most ", kMaxTensorNameBytes));
      if (map_.size() == kMaxSafetensorsTensors)
        return Stop(absl::StrCat("weight_map has more than ",
                                 kMaxSafetensorsTensors, " tensors"));
      tensor_ = value;
    } else if (depth_ == 1) {
      member_ = value;
    }
    return true;
  }

  bool start_array(size_t) override {
    const bool other = depth_ > 1 || (depth_ == 1 && member_ != "weight_map");
    return other && !in_map_ ? Deeper() : Scalar("an array");
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const Json::exception&) override {
    return Stop(absl::StrCat("not valid JSON at byte ", position));
  }

  bool found() const { return found_; }
  const absl::Status& status() const { return status_; }
  std::map<std::string, std::string> TakeMap() { return std::move(map_); }

 private:
  // A value that is neither the map nor one of its strings.
  bool Scalar(absl::string_view what) {
    if (in_map_)
      return Stop(absl::StrCat("weight_map[\"", Shown(tensor_), "\"] is ", what,
                               "; must be a file name"));
    if (depth_ == 0)
      return Stop(absl::StrCat("JSON is ", what, "; must be an object"));
    if (depth_ == 1 && member_ == "weight_map")
      return Stop(absl::StrCat("weight_map is ", what, "; must be an object"));
    return true;
  }
  bool Deeper() {
    return ++depth_ <= kMaxConfigDepth ||
           Stop(absl::StrCat("JSON nests deeper than ", kMaxConfigDepth,
                             " levels"));
  }
  bool Stop(absl::string_view message) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(message);
    return false;
  }

  int depth_ = 0;
  bool in_map_ = false;
  bool found_ = false;
  std::string member_;
  std::string tensor_;
  std::map<std::string, std::string> map_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ParseWeightIndex(
    absl::string_view json) {
  IndexReader reader;
  bool complete = false;
  try {
    complete = nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON: ", error.what()));
  }
  if (!reader.status().ok()) return reader.status();
  if (!complete) return absl::InvalidArgumentError("not valid JSON");
  if (!reader.found())
    return absl::InvalidArgumentError("weight_map is absent");
  return reader.TakeMap();
}

}  // namespace phalanx

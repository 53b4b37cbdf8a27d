#include "worker/checkpoint/safetensors_header.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "worker/checkpoint/safetensors.h"

namespace phalanx {
namespace {

constexpr absl::string_view kMetadata = "__metadata__";

std::string Shown(absl::string_view name) {
  return absl::CEscape(name.substr(0, kMaxTensorNameBytes));
}

// Accepts exactly {name: {"dtype": s, "shape": [n...], "data_offsets": [n...]}}
// and {"__metadata__": {s: s}}; anything else stops the parser. Levels: 0
// outside, 1 names, 2 members of a tensor, 3 numbers of an array.
class HeaderReader : public nlohmann::json::json_sax_t {
 public:
  using Json = nlohmann::json;

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_float(double, const std::string& text) override {
    return Unexpected(absl::StrCat("the number ", Shown(text)));
  }
  bool binary(Json::binary_t&) override { return Unexpected("binary"); }

  bool number_integer(int64_t value) override {
    return Unexpected(absl::StrCat("the number ", value));
  }

  bool number_unsigned(uint64_t value) override {
    if (level_ != 3) return Unexpected(absl::StrCat("the number ", value));
    if (numbers_->size() == kMaxSafetensorsRank)
      return Stop(absl::InvalidArgumentError(absl::StrCat(
          Where(), " has more than ", kMaxSafetensorsRank, " numbers")));
    numbers_->push_back(value);
    return true;
  }

  bool string(std::string& value) override {
    if (in_metadata_) return true;
    if (level_ != 2 || member_ != "dtype")
      return Unexpected(absl::StrCat("the string \"", Shown(value), "\""));
    entry_.dtype = std::move(value);
    return true;
  }

  bool start_object(size_t) override {
    if (level_ > 1 || in_metadata_) return Unexpected("an object");
    if (level_ == 1 && name_ == kMetadata) in_metadata_ = true;
    ++level_;
    return true;
  }

  bool key(std::string& value) override {
    if (in_metadata_) return true;
    if (level_ == 1) return StartTensor(value);
    member_ = value;
    unsigned bit = 0;
    if (value == "dtype") bit = 1;
    if (value == "shape") bit = 2;
    if (value == "data_offsets") bit = 4;
    if (bit == 0) return Lost(absl::StrCat(Where(), " is no known member"));
    if (seen_ & bit) return Lost(absl::StrCat(Where(), " is there twice"));
    seen_ |= bit;
    return true;
  }

  bool end_object() override {
    --level_;
    if (in_metadata_) {
      in_metadata_ = false;
      return true;
    }
    if (level_ != 1) return true;
    member_.clear();
    if (seen_ != 7)
      return Lost(absl::StrCat(Where(), " lacks dtype, shape or data_offsets"));
    entries_.push_back(std::move(entry_));
    return true;
  }

  bool start_array(size_t) override {
    if (level_ != 2 || in_metadata_ || member_ == "dtype")
      return Unexpected("an array");
    numbers_ = member_ == "shape" ? &entry_.shape : &entry_.data_offsets;
    level_ = 3;
    return true;
  }

  bool end_array() override {
    level_ = 2;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const Json::exception&) override {
    return Lost(absl::StrCat("header is not valid JSON at byte ", position));
  }

  const absl::Status& status() const { return status_; }
  std::vector<HeaderEntry> TakeEntries() { return std::move(entries_); }

 private:
  bool StartTensor(const std::string& name) {
    if (name.size() > kMaxTensorNameBytes)
      return Stop(absl::InvalidArgumentError(
          absl::StrCat("tensor name of ", name.size(), " bytes; at most ",
                       kMaxTensorNameBytes)));
    if (entries_.size() == kMaxSafetensorsTensors)
      return Stop(absl::InvalidArgumentError(
          absl::StrCat("more than ", kMaxSafetensorsTensors, " tensors")));
    name_ = name;
    member_.clear();
    seen_ = 0;
    entry_ = HeaderEntry();
    entry_.name = name;
    if (!names_.insert(name).second)
      return Lost(absl::StrCat(Where(), " is there twice"));
    return true;
  }

  std::string Where() const {
    if (level_ == 0) return "header";
    return absl::StrCat("tensor ", Shown(name_), member_.empty() ? "" : ": ",
                        Shown(member_));
  }
  bool Unexpected(absl::string_view what) {
    return Lost(absl::StrCat(Where(), " is ", what,
                             ", not what the format "
                             "says"));
  }
  bool Lost(absl::string_view message) {
    return Stop(absl::DataLossError(message));
  }
  bool Stop(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
    return false;
  }

  int level_ = 0;
  bool in_metadata_ = false;
  unsigned seen_ = 0;  // Members of the present tensor: bits 1, 2, 4.
  std::string name_;
  std::string member_;
  std::vector<uint64_t>* numbers_ = nullptr;
  HeaderEntry entry_;
  std::unordered_set<std::string> names_;
  std::vector<HeaderEntry> entries_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<HeaderEntry>> ParseSafetensorsHeader(
    absl::string_view json) {
  HeaderReader reader;
  bool complete = false;
  try {
    complete = nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(
        absl::StrCat("header is not valid JSON: ", error.what()));
  }
  if (!reader.status().ok()) return reader.status();
  if (!complete) return absl::DataLossError("header is not valid JSON");
  return reader.TakeEntries();
}

}  // namespace phalanx

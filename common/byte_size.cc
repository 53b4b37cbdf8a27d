#include "common/byte_size.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/units.h"

namespace phalanx {
namespace {

constexpr size_t kMaxTextBytes = 40;  // No number of bytes needs more.

struct Unit {
  absl::string_view name;
  int64_t bytes;
};
constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"KB", 1000},
    {"MB", 1000 * 1000},
    {"GB", 1000 * 1000 * 1000},
    {"TB", int64_t{1000} * 1000 * 1000 * 1000},
    {"KiB", kKiB},
    {"MiB", kMiB},
    {"GiB", kGiB},
    {"TiB", kKiB* kGiB},
};

// Digits, or digits.digits. Not what strtod takes: signs, exponents, "nan".
bool IsDecimal(absl::string_view text) {
  size_t dots = 0;
  for (const char c : text) {
    if (c == '.')
      ++dots;
    else if (!absl::ascii_isdigit(static_cast<unsigned char>(c)))
      return false;
  }
  return dots <= 1 && !text.empty() && text.front() != '.' &&
         text.back() != '.';
}

}  // namespace

absl::StatusOr<int64_t> ParseByteSize(absl::string_view field,
                                      absl::string_view text) {
  const size_t end = text.find_first_not_of("0123456789.");
  const absl::string_view number = text.substr(0, end);
  const absl::string_view name =
      end == absl::string_view::npos ? "" : text.substr(end);
  const auto refuse = [&](absl::string_view rule) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " is \"", text.substr(0, kMaxTextBytes), "\"; must be ", rule));
  };
  int64_t unit = 0;
  for (const Unit& known : kUnits)
    if (known.name == name) unit = known.bytes;
  if (unit == 0 || !IsDecimal(number) || text.size() > kMaxTextBytes)
    return refuse(
        "a number and one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, such as "
        "80GB or 94.4GiB");
  // Whole bytes are exact; a double has room for those of any other.
  int64_t whole = 0;
  double value = 0;
  if (unit == 1 && absl::SimpleAtoi(number, &whole)) {
    value = static_cast<double>(whole);
  } else if (absl::SimpleAtod(number, &value)) {
    value = std::floor(value * static_cast<double>(unit));
  }
  if (value < 1 || value > static_cast<double>(kMaxByteSize) ||
      whole > kMaxByteSize)
    return refuse(absl::StrCat("1..", kMaxByteSize, " bytes"));
  return whole > 0 ? whole : static_cast<int64_t>(value);
}

std::string FormatByteSize(int64_t bytes) {
  const Unit* best = nullptr;
  for (const Unit& unit : kUnits)
    if (unit.name.size() == 3 && unit.bytes <= bytes) best = &unit;
  if (best == nullptr) return absl::StrCat(bytes, " B");
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f %s",
                static_cast<double>(bytes) / static_cast<double>(best->bytes),
                best->name.data());
  return text;
}

}  // namespace phalanx

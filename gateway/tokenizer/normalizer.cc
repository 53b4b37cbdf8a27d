#include "gateway/tokenizer/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace phalanx {
namespace {

absl::Status IcuError(UErrorCode error) {
  return absl::InternalError(
      absl::StrCat("ICU's NFC reports ", u_errorName(error)));
}

}  // namespace

absl::StatusOr<absl::string_view> NormalizeNfc(absl::string_view text,
                                               std::string& buffer) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(error);
  if (U_FAILURE(error)) return IcuError(error);
  const icu::StringPiece source(text.data(), static_cast<int32_t>(text.size()));
  const bool normal = nfc->isNormalizedUTF8(source, error);
  if (U_FAILURE(error)) return IcuError(error);
  if (normal) return text;
  buffer.clear();
  icu::StringByteSink<std::string> sink(&buffer);
  nfc->normalizeUTF8(0, source, sink, nullptr, error);
  if (U_FAILURE(error)) return IcuError(error);
  return absl::string_view(buffer);
}

}  // namespace phalanx

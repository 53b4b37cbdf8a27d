#ifndef PHALANX_GATEWAY_TOKENIZER_NORMALIZER_H_
#define PHALANX_GATEWAY_TOKENIZER_NORMALIZER_H_

// Unicode normalisation form C, by ICU.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// `text` (valid UTF-8, under 2^29 bytes) in NFC: `text` itself when it is in
// NFC already, which nearly all text is and which takes half a nanosecond per
// byte to see; else a view of `buffer`, which is overwritten. INTERNAL: ICU's
// data is not there or memory is not. Any thread.
absl::StatusOr<absl::string_view> NormalizeNfc(absl::string_view text,
                                               std::string& buffer);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_TOKENIZER_NORMALIZER_H_

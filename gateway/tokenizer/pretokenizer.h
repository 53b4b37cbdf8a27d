#ifndef PHALANX_GATEWAY_TOKENIZER_PRETOKENIZER_H_
#define PHALANX_GATEWAY_TOKENIZER_PRETOKENIZER_H_

// Cuts text into the pieces that BPE then works on, with the regular expression
// of tokenizer.json run by PCRE2's just-in-time compiler.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// Bounds of one pattern, and of one match with it: a pattern is a file's
// choice, and some take exponential time. 2^25 steps are about a third of a
// second; the patterns of the Qwen family take two steps per byte of the
// longest run of spaces.
inline constexpr size_t kMaxSplitPatternBytes = 16 << 10;
inline constexpr uint32_t kSplitMatchLimit = 1u << 25;
inline constexpr uint32_t kSplitHeapLimitKib = 64 << 10;

// Made by Tokenizer at load and dies with it. Const after Create: any thread.
class Pretokenizer {
 public:
  // INVALID_ARGUMENT: not a pattern that PCRE2 compiles, with the offset and
  // its reason.
  static absl::StatusOr<std::unique_ptr<Pretokenizer>> Create(
      const std::string& pattern);
  ~Pretokenizer();
  Pretokenizer(const Pretokenizer&) = delete;
  Pretokenizer& operator=(const Pretokenizer&) = delete;

  // Calls `piece` with each match and with each stretch between matches, in
  // order; together they are `text`, and none is empty. `text` must be valid
  // UTF-8: it is not looked at again. INVALID_ARGUMENT: a match passed a limit;
  // the pieces before it have been given out.
  absl::Status Split(absl::string_view text,
                     absl::FunctionRef<void(absl::string_view)> piece) const;

 private:
  struct Compiled;  // PCRE2's code and limits, kept out of this header.
  struct Span {
    bool found = false;
    size_t begin = 0;
    size_t end = 0;
  };

  explicit Pretokenizer(std::unique_ptr<Compiled> compiled);
  absl::StatusOr<Span> FindFrom(absl::string_view text, size_t from,
                                void* match_data) const;

  std::unique_ptr<Compiled> compiled_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_TOKENIZER_PRETOKENIZER_H_

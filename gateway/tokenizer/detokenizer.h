#ifndef PHALANX_GATEWAY_TOKENIZER_DETOKENIZER_H_
#define PHALANX_GATEWAY_TOKENIZER_DETOKENIZER_H_

// Token ids -> text, as they come.

#include <cstdint>
#include <string>

#include "gateway/tokenizer/tokenizer.h"

namespace phalanx {

// Releases only whole code points and only text that no later token can change.
// Bytes that can never become a code point turn into U+FFFD, one per maximal
// invalid prefix, as soon as that is certain. However the ids are cut into
// calls, the text is the same.
//
// One per stream, used by one thread at a time; the tokenizer outlives it.
class IncrementalDetokenizer {
 public:
  // With `skip_special`, special tokens are passed over as if they were not
  // there.
  IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special);

  // The text that became certain with `id`. An added token first ends the bytes
  // that were waiting. An id that no token has changes nothing.
  std::string Push(int32_t id);

  // What was waiting, as U+FFFD. Afterwards the object is as new.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_;
  std::string waiting_;  // The front of a code point: 0 to 3 bytes.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_TOKENIZER_DETOKENIZER_H_

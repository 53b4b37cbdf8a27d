// A model's answer, cut in two ways: what is delivered is the same. The first
// byte chooses the options, the second the cuts.

#include <algorithm>
#include <string>
#include <vector>

#include "common/check.h"
#include "gateway/chat/output_parser.h"
#include "gateway/tokenizer/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace phalanx {
namespace {

struct Answer {
  std::vector<Piece> pieces;  // Neighbours of one channel joined.
  std::optional<std::string> stop;

  bool operator==(const Answer&) const = default;
};

void Join(const std::vector<Piece>& pieces, Answer& answer) {
  for (const Piece& piece : pieces) {
    CHECK(!piece.text.empty());
    CHECK(ValidUtf8Size(piece.text) == piece.text.size());
    if (!answer.pieces.empty() && answer.pieces.back().channel == piece.channel)
      answer.pieces.back().text += piece.text;
    else
      answer.pieces.push_back(piece);
  }
}

Answer Parse(const OutputParserOptions& options, absl::string_view text,
             size_t cut) {
  OutputParser parser(options);
  Answer answer;
  for (size_t at = 0; at < text.size(); at += cut)
    Join(parser.Push(text.substr(at, cut)), answer);
  Join(parser.Flush(), answer);
  answer.stop = parser.matched_stop();
  return answer;
}

OutputParserOptions OptionsOf(uint8_t bits) {
  OutputParserOptions options;
  options.starts_in_reasoning = bits & 1;
  options.include_stop = bits & 2;
  const char* const stops[] = {"stop", "</thi", "\n\n", "ss", "\u00e9!"};
  for (int i = 0; i < 5; ++i)
    if (bits & (4 << i)) options.stop_strings.push_back(stops[i]);
  return options;
}

void Read(absl::string_view bytes) {
  if (bytes.size() < 2) return;
  const OutputParserOptions options = OptionsOf(bytes[0]);
  const size_t cut = static_cast<uint8_t>(bytes[1]) + 1;
  const absl::string_view text = bytes.substr(2);
  if (ValidUtf8Size(text) != text.size()) return;
  const Answer whole = Parse(options, text, std::max<size_t>(text.size(), 1));
  CHECK(Parse(options, text, 1) == whole);
  CHECK(Parse(options, text, cut) == whole);
}

}  // namespace
}  // namespace phalanx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phalanx::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}

#ifndef PHALANX_GATEWAY_CHAT_OUTPUT_PARSER_H_
#define PHALANX_GATEWAY_CHAT_OUTPUT_PARSER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace phalanx {

enum class Channel { kContent, kReasoning };

// Text that may go to the client; never empty, always whole code points.
struct Piece {
  Channel channel = Channel::kContent;
  std::string text;

  bool operator==(const Piece&) const = default;
};

// Does generation start inside the reasoning, since the prompt ends with an
// opened <think>?
bool PromptOpensReasoning(absl::string_view prompt);

struct OutputParserOptions {
  bool starts_in_reasoning = false;
  // At each byte all of them are tried, so the caller bounds their number and
  // length. Text that ends the answer, whole code points of UTF-8; empty ones
  // are ignored.
  std::vector<std::string> stop_strings;
  bool include_stop = false;  // Deliver the stop string that was met.
};

// Splits the text of one stream into reasoning and content, and watches for
// stop strings. Made per choice when its generation starts; one thread at a
// time; dies with the stream.
//
// Reasoning ends at </think>, which is dropped with the newlines around it, or
// where a <tool_call> begins, which stays: it is content, as written. Stop
// strings are looked for in the text as generated, markers and all; of several,
// the one that is complete first counts, of those complete at the same byte the
// longest.
//
// What is delivered does not depend on how the text is cut into calls of Push:
// only the ends of pieces do. Held back is no more than could still be part of
// a stop string, a marker or the newlines before one, or an unfinished code
// point.
class OutputParser {
 public:
  explicit OutputParser(OutputParserOptions options);

  // More text, UTF-8, cut anywhere. Returns what may be delivered now, in
  // order. After a stop string everything is dropped.
  std::vector<Piece> Push(absl::string_view text);

  // The text has ended: what was held back. Without a </think> it all belongs
  // to the channel that it is in. An unfinished code point becomes U+FFFD.
  std::vector<Piece> Flush();

  // Whether the next token would still be reasoning.
  bool in_reasoning() const { return state_ == State::kReasoning; }

  // The stop string that was met. Once set, generation may be cancelled.
  const std::optional<std::string>& matched_stop() const {
    return matched_stop_;
  }

 private:
  enum class State { kReasoning, kBehindMarker, kContent };

  // One byte each, through the stop strings, then through the markers.
  void Watch(char c);
  void Split(char c);
  void SplitAll(absl::string_view text);
  // The stop string that ends held_, or nullptr.
  const std::string* StopAtEnd() const;
  // How much of held_'s end could be the start of a stop string.
  size_t PossibleStop() const;
  // Newlines and half a marker that turned out to be just text.
  void ReleaseMarker();
  void Deliver(Channel channel, absl::string_view text);
  std::vector<Piece> TakePieces();

  OutputParserOptions options_;
  State state_;
  std::string unfinished_;  // Bytes of a code point that is not whole yet.
  std::string held_;        // Could become a stop string.
  size_t newlines_ = 0;     // Held: they may stand before a marker.
  std::string marker_;      // Held: the start of a marker, behind those.
  std::vector<Piece> pieces_;
  std::optional<std::string> matched_stop_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CHAT_OUTPUT_PARSER_H_

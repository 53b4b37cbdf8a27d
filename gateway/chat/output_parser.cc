#include "gateway/chat/output_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace phalanx {
namespace {

constexpr absl::string_view kThinkBegin = "<think>";
constexpr absl::string_view kThinkEnd = "</think>";
constexpr absl::string_view kToolCall = "<tool_call>";
constexpr absl::string_view kReplacement = "\xef\xbf\xbd";

// Bytes at the end of `text` that start a code point but do not finish it.
size_t UnfinishedBytes(absl::string_view text) {
  const size_t most = std::min<size_t>(text.size(), 3);
  for (size_t back = 1; back <= most; ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // Inside of a code point.
    const size_t length = byte >= 0xf0   ? 4
                          : byte >= 0xe0 ? 3
                          : byte >= 0xc0 ? 2
                                         : 1;
    return back < length ? back : 0;
  }
  return 0;
}

}  // namespace

bool PromptOpensReasoning(absl::string_view prompt) {
  return absl::EndsWith(absl::StripTrailingAsciiWhitespace(prompt),
                        kThinkBegin);
}

OutputParser::OutputParser(OutputParserOptions options)
    : options_(std::move(options)),
      state_(options_.starts_in_reasoning ? State::kReasoning
                                          : State::kContent) {
  std::vector<std::string>& stops = options_.stop_strings;
  stops.erase(std::remove(stops.begin(), stops.end(), ""), stops.end());
}

std::vector<Piece> OutputParser::Push(absl::string_view text) {
  if (matched_stop_) return {};
  absl::StrAppend(&unfinished_, text);
  const size_t whole = unfinished_.size() - UnfinishedBytes(unfinished_);
  for (size_t i = 0; i < whole && !matched_stop_; ++i) Watch(unfinished_[i]);
  unfinished_.erase(0, whole);
  return TakePieces();
}

std::vector<Piece> OutputParser::Flush() {
  if (!matched_stop_) {
    if (!unfinished_.empty()) absl::StrAppend(&held_, kReplacement);
    SplitAll(held_);
  }
  unfinished_.clear();
  held_.clear();
  ReleaseMarker();
  return TakePieces();
}

const std::string* OutputParser::StopAtEnd() const {
  const std::string* longest = nullptr;
  for (const std::string& stop : options_.stop_strings) {
    if (absl::EndsWith(held_, stop) &&
        (longest == nullptr || stop.size() > longest->size())) {
      longest = &stop;
    }
  }
  return longest;
}

size_t OutputParser::PossibleStop() const {
  size_t longest = 0;
  for (const std::string& stop : options_.stop_strings) {
    size_t length = std::min(held_.size(), stop.size() - 1);
    while (length > longest &&
           !absl::EndsWith(held_, absl::string_view(stop).substr(0, length))) {
      --length;
    }
    longest = std::max(longest, length);
  }
  return longest;
}

void OutputParser::Watch(char c) {
  if (options_.stop_strings.empty()) return Split(c);
  held_.push_back(c);
  if (const std::string* stop = StopAtEnd()) {
    matched_stop_ = *stop;
    const size_t kept =
        held_.size() - (options_.include_stop ? 0 : stop->size());
    SplitAll(absl::string_view(held_).substr(0, kept));
    held_.clear();
    ReleaseMarker();
    return;
  }
  const size_t free = held_.size() - PossibleStop();
  SplitAll(absl::string_view(held_).substr(0, free));
  held_.erase(0, free);
}

void OutputParser::SplitAll(absl::string_view text) {
  for (char c : text) Split(c);
}

void OutputParser::Split(char c) {
  if (state_ == State::kBehindMarker && c == '\n') return;
  if (state_ != State::kReasoning) {
    state_ = State::kContent;
    return Deliver(Channel::kContent, absl::string_view(&c, 1));
  }
  // A marker holds no '<' or newline but its first byte, so a byte either goes
  // on with the one that was begun or starts afresh.
  if (!marker_.empty()) {
    marker_.push_back(c);
    if (marker_ == kThinkEnd || marker_ == kToolCall) {
      const bool tool_call = marker_ == kToolCall;
      newlines_ = 0;
      marker_.clear();
      state_ = tool_call ? State::kContent : State::kBehindMarker;
      if (tool_call) Deliver(Channel::kContent, kToolCall);
      return;
    }
    if (absl::StartsWith(kThinkEnd, marker_) ||
        absl::StartsWith(kToolCall, marker_)) {
      return;
    }
    marker_.pop_back();
    ReleaseMarker();
  }
  if (c == '\n') {
    ++newlines_;
  } else if (c == '<') {
    marker_.push_back(c);
  } else {
    ReleaseMarker();
    Deliver(Channel::kReasoning, absl::string_view(&c, 1));
  }
}

void OutputParser::ReleaseMarker() {
  Deliver(Channel::kReasoning, std::string(newlines_, '\n'));
  Deliver(Channel::kReasoning, marker_);
  newlines_ = 0;
  marker_.clear();
}

void OutputParser::Deliver(Channel channel, absl::string_view text) {
  if (text.empty()) return;
  if (pieces_.empty() || pieces_.back().channel != channel) {
    pieces_.push_back(Piece{channel, ""});
  }
  absl::StrAppend(&pieces_.back().text, text);
}

std::vector<Piece> OutputParser::TakePieces() {
  return std::exchange(pieces_, {});
}

}  // namespace phalanx

#include "tests/gateway/tokenizer/small_tokenizer.h"

#include <cstdint>

#include "tests/gateway/tokenizer/golden_vocabulary.h"

namespace phalanx {

using nlohmann::json;

namespace {

json Added(int id, const std::string& content, bool special) {
  return {{"id", id},          {"content", content}, {"single_word", false},
          {"lstrip", false},   {"rstrip", false},    {"normalized", false},
          {"special", special}};
}

}  // namespace

std::string SpellingOfByte(int byte) {
  const auto prints = [](int value) {
    return (value > 0x20 && value < 0x7F) || (value > 0xA0 && value != 0xAD);
  };
  int character = byte;
  if (!prints(byte)) {
    character = 0x100;
    for (int before = 0; before < byte; ++before) character += !prints(before);
  }
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6),
          static_cast<char>(0x80 | (character & 0x3F))};
}

json SmallTokenizerJson() {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[SpellingOfByte(byte)] = byte;
  vocab["he"] = 256;
  vocab["ll"] = 257;
  vocab["hell"] = 258;
  vocab["hello"] = 259;
  vocab["\u0120he"] = 260;
  return {{"added_tokens",
           {Added(261, "<|end|>", true), Added(262, "<think>", false)}},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"},
               {"pattern", {{"Regex", Qwen35Pattern()}}},
               {"behavior", "Isolated"},
               {"invert", false}},
              {{"type", "ByteLevel"},
               {"add_prefix_space", false},
               {"use_regex", false}}}}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges", {"h e", "l l", "he ll", "hell o", "\u0120 he"}}}}};
}

}  // namespace phalanx

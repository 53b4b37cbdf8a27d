#ifndef PHALANX_TESTS_GATEWAY_TOKENIZER_SMALL_TOKENIZER_H_
#define PHALANX_TESTS_GATEWAY_TOKENIZER_SMALL_TOKENIZER_H_

// A small tokenizer.json to break or to extend: ids 0..255 are the bytes
// (id = byte), then a few merged tokens and two added ones.

#include <nlohmann/json.hpp>
#include <string>

namespace phalanx {

// How the byte-level alphabet spells one byte.
std::string SpellingOfByte(int byte);

// Tokens: 256 "he", 257 "ll", 258 "hell", 259 "hello", 260 " " before "he".
// Added: 261 "<|end|>" (special), 262 "<think>".
nlohmann::json SmallTokenizerJson();

}  // namespace phalanx

#endif  // PHALANX_TESTS_GATEWAY_TOKENIZER_SMALL_TOKENIZER_H_

#ifndef PHALANX_TESTS_GATEWAY_TOKENIZER_GOLDEN_VOCABULARY_H_
#define PHALANX_TESTS_GATEWAY_TOKENIZER_GOLDEN_VOCABULARY_H_

// The vocabulary behind the golden tokenizer files, loaded once per test
// program, and the golden lines.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/tokenizer/tokenizer.h"

namespace phalanx {

// The split pattern of the Qwen3.5 family (model_spec.md 6.1).
std::string Qwen35Pattern();

// The Qwen3 vocabulary as its file has it, and under the pattern above.
const Tokenizer& Qwen3();
const Tokenizer& Qwen35();

// The pattern of the Qwen3 file.
std::string Qwen3Pattern();

// The JSON values of a file of tests/golden/tokenizer, one a line.
std::vector<nlohmann::json> GoldenLines(const std::string& name);

}  // namespace phalanx

#endif  // PHALANX_TESTS_GATEWAY_TOKENIZER_GOLDEN_VOCABULARY_H_

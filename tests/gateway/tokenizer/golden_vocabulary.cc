#include "tests/gateway/tokenizer/golden_vocabulary.h"

#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>

#include "common/check.h"
#include "gateway/tokenizer/tokenizer_file.h"

namespace phalanx {
namespace {

TokenizerTables ReadQwen3Tables() {
  const std::string command =
      "xz -dc '" GOLDEN_DIR "/tokenizer/qwen3_tokenizer.json.xz'";
  FILE* pipe = popen(command.c_str(), "r");
  CHECK(pipe != nullptr);
  std::string text;
  std::vector<char> block(1 << 16);
  for (size_t read = 0;
       (read = std::fread(block.data(), 1, block.size(), pipe)) > 0;) {
    text.append(block.data(), read);
  }
  CHECK(pclose(pipe) == 0);  // xz-utils is installed and the file is whole.
  TokenizerText source;
  source.tokenizer_json = text;
  absl::StatusOr<TokenizerTables> tables = ParseTokenizerTables(source);
  CHECK(tables.ok());
  return *std::move(tables);
}

const TokenizerTables& Qwen3Tables() {
  static const TokenizerTables tables = ReadQwen3Tables();
  return tables;
}

std::unique_ptr<Tokenizer> Make(TokenizerTables tables) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      Tokenizer::Create(std::move(tables));
  CHECK(tokenizer.ok());
  return *std::move(tokenizer);
}

}  // namespace

std::string Qwen35Pattern() {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
         R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

std::string Qwen3Pattern() {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

const Tokenizer& Qwen3() {
  static const std::unique_ptr<Tokenizer> tokenizer = Make(Qwen3Tables());
  return *tokenizer;
}

const Tokenizer& Qwen35() {
  static const std::unique_ptr<Tokenizer> tokenizer = [] {
    TokenizerTables tables = Qwen3Tables();
    tables.split_pattern = Qwen35Pattern();
    return Make(std::move(tables));
  }();
  return *tokenizer;
}

std::vector<nlohmann::json> GoldenLines(const std::string& name) {
  std::ifstream file(GOLDEN_DIR "/tokenizer/" + name);
  CHECK(file.is_open());
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

}  // namespace phalanx

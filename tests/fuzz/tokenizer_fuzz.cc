// tokenizer.json, and tokenizer_config.json behind a zero byte: what is
// accepted encodes any text, and decodes to the same text.

#include <optional>
#include <string>
#include <utility>

#include "common/check.h"
#include "gateway/tokenizer/tokenizer.h"
#include "gateway/tokenizer/tokenizer_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace phalanx {
namespace {

// In NFC, as a tokenizer that normalizes leaves it.
constexpr char kText[] = "hello  he'll\n12 <|end|>\t\u00e9\u4f60<think>";

void CheckTables(const TokenizerTables& tables) {
  const auto ids = static_cast<int32_t>(tables.token_bytes.size());
  CHECK(tables.byte_tokens.size() == 256);
  for (int byte = 0; byte < 256; ++byte)
    CHECK(tables.token_bytes[tables.byte_tokens[byte]] ==
          std::string(1, static_cast<char>(byte)));
  for (const Merge& merge : tables.merges) {
    CHECK(merge.left >= 0 && merge.left < ids);
    CHECK(merge.right >= 0 && merge.right < ids);
    CHECK(tables.token_bytes[merge.result] ==
          tables.token_bytes[merge.left] + tables.token_bytes[merge.right]);
  }
}

void CheckRoundTrip(const Tokenizer& tokenizer) {
  for (const bool match_added : {false, true}) {
    const auto ids = tokenizer.Encode(kText, match_added);
    if (!ids.ok()) continue;  // A pattern's match limit.
    for (const int32_t id : *ids) CHECK(id >= 0 && id < tokenizer.vocab_size());
    CHECK(tokenizer.Decode(*ids, /*skip_special=*/false) == kText);
  }
}

void Read(absl::string_view bytes) {
  const size_t zero = bytes.find('\0');
  TokenizerText text;
  text.tokenizer_json = bytes.substr(0, zero);
  if (zero != absl::string_view::npos)
    text.config_json = bytes.substr(zero + 1);
  auto tables = ParseTokenizerTables(text);
  if (!tables.ok()) return;
  CheckTables(*tables);
  const auto tokenizer = Tokenizer::Create(*std::move(tables));
  if (tokenizer.ok()) CheckRoundTrip(**tokenizer);
}

}  // namespace
}  // namespace phalanx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phalanx::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}

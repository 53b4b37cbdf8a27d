#include "tests/gateway/api/api_fixtures.h"

#include <utility>

#include "gateway/tokenizer/tokenizer_file.h"
#include "tests/gateway/tokenizer/small_tokenizer.h"

namespace phalanx {

std::unique_ptr<Tokenizer> MakeSmallTokenizer() {
  const std::string text = SmallTokenizerJson().dump();
  TokenizerText source;
  source.tokenizer_json = text;
  return *Tokenizer::Create(*ParseTokenizerTables(source));
}

std::unique_ptr<ChatTemplate> MakeSmallTemplate() {
  return *ChatTemplate::Parse(
      "{%- for m in messages -%}"
      "{%- if m.role == 'nobody' -%}"
      "{{ raise_exception('no messages from nobody') }}"
      "{%- endif -%}"
      "{{ m.content }}"
      "{%- endfor -%}"
      "{%- if enable_thinking is not false -%}<think>{%- endif -%}");
}

std::vector<int32_t> BytesOf(const std::string& text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

google::protobuf::RepeatedPtrField<v1::WorkerToken> TokensOf(
    const std::vector<int32_t>& ids) {
  google::protobuf::RepeatedPtrField<v1::WorkerToken> tokens;
  for (const int32_t id : ids) tokens.Add()->set_token_id(id);
  return tokens;
}

}  // namespace phalanx

#ifndef PHALANX_TESTS_GATEWAY_API_API_FIXTURES_H_
#define PHALANX_TESTS_GATEWAY_API_API_FIXTURES_H_

// A small tokenizer and template for the tests of the gateway's service.

#include <memory>
#include <string>
#include <vector>

#include "gateway/api/prepare.h"
#include "gateway/chat/chat_template.h"
#include "gateway/tokenizer/tokenizer.h"
#include "worker.pb.h"

namespace phalanx {

// Ids 0..255 are the bytes; 261 is the special "<|end|>".
std::unique_ptr<Tokenizer> MakeSmallTokenizer();

// Contents of all messages one after the other, then "<think>" unless
// enable_thinking is false; raises "no messages from nobody" for role nobody.
std::unique_ptr<ChatTemplate> MakeSmallTemplate();

// The ids of the bytes of `text`.
std::vector<int32_t> BytesOf(const std::string& text);

google::protobuf::RepeatedPtrField<v1::WorkerToken> TokensOf(
    const std::vector<int32_t>& ids);

}  // namespace phalanx

#endif  // PHALANX_TESTS_GATEWAY_API_API_FIXTURES_H_

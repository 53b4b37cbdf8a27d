#include "gateway/tokenizer/tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/tokenizer/detokenizer.h"
#include "gateway/tokenizer/normalizer.h"
#include "gateway/tokenizer/utf8.h"

namespace phalanx {

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(
    const std::string& model_dir) {
  ASSIGN_OR_RETURN(TokenizerTables tables, ReadTokenizerTables(model_dir));
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      Create(std::move(tables));
  if (tokenizer.ok()) return tokenizer;
  return absl::Status(tokenizer.status().code(),
                      absl::StrCat(model_dir, "/tokenizer.json: ",
                                   tokenizer.status().message()));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(
    TokenizerTables tables) {
  ASSIGN_OR_RETURN(std::unique_ptr<Pretokenizer> pretokenizer,
                   Pretokenizer::Create(tables.split_pattern));
  return std::unique_ptr<Tokenizer>(
      new Tokenizer(std::move(tables), std::move(pretokenizer)));
}

Tokenizer::Tokenizer(TokenizerTables tables,
                     std::unique_ptr<Pretokenizer> pretokenizer)
    : nfc_(tables.nfc),
      added_(tables.added),
      pretokenizer_(std::move(pretokenizer)),
      kind_(tables.token_bytes.size(), Kind::kOrdinary),
      bpe_(std::move(tables.token_bytes), std::move(tables.merges),
           tables.byte_tokens) {
  for (const AddedToken& token : tables.added) {
    kind_[token.id] = token.special ? Kind::kSpecial : Kind::kAdded;
  }
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text,
                                                       bool match_added) const {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the text has ", text.size(), " bytes; at most ", kMaxTextBytes));
  }
  const size_t valid = ValidUtf8Size(text);
  if (valid != text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text is not valid UTF-8 at byte ", valid));
  }
  Work work;
  RETURN_IF_ERROR(match_added ? EncodeMatchingAdded(text, work)
                              : EncodePlain(text, work));
  return std::move(work.ids);
}

absl::Status Tokenizer::EncodeMatchingAdded(absl::string_view text,
                                            Work& work) const {
  size_t from = 0;
  while (const auto found = added_.FindFrom(text, from)) {
    RETURN_IF_ERROR(EncodePlain(text.substr(from, found->begin - from), work));
    work.ids.push_back(found->id);
    from = found->begin + found->size;
  }
  return EncodePlain(text.substr(from), work);
}

absl::Status Tokenizer::EncodePlain(absl::string_view text, Work& work) const {
  if (nfc_) {
    ASSIGN_OR_RETURN(text, NormalizeNfc(text, work.normalized));
  }
  return pretokenizer_->Split(text, [&](absl::string_view piece) {
    bpe_.Encode(piece, work.scratch, work.ids);
  });
}

std::string Tokenizer::Decode(std::span<const int32_t> ids,
                              bool skip_special) const {
  IncrementalDetokenizer detokenizer(*this, skip_special);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Push(id);
  return text + detokenizer.Flush();
}

absl::string_view Tokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return bpe_.token_bytes()[id];
}

std::optional<int32_t> Tokenizer::AddedTokenId(
    absl::string_view content) const {
  return added_.IdOf(content);
}

Tokenizer::Kind Tokenizer::KindOf(int32_t id) const {
  return id < 0 || id >= vocab_size() ? Kind::kOrdinary : kind_[id];
}

bool Tokenizer::is_added(int32_t id) const {
  return KindOf(id) != Kind::kOrdinary;
}

bool Tokenizer::is_special(int32_t id) const {
  return KindOf(id) == Kind::kSpecial;
}

int32_t Tokenizer::vocab_size() const {
  return static_cast<int32_t>(kind_.size());
}

}  // namespace phalanx

#include "gateway/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "gateway/tokenizer/byte_alphabet.h"
#include "gateway/tokenizer/json_node.h"

namespace phalanx {

using nlohmann::json;

namespace {

constexpr int kBytes = 256;

// Id -> token; the one place where two entries of one id meet.
using AddedById = std::map<int32_t, AddedToken>;

// Views the keys of the document.
using IdBySpelling = absl::flat_hash_map<absl::string_view, int32_t>;

// ---- What must be as the Qwen family has it ----

absl::Status CheckNormalizer(const JsonNode& root, TokenizerTables& tables) {
  if (!root.Has("normalizer")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JsonNode normalizer, root.Member("normalizer"));
  RETURN_IF_ERROR(normalizer.ExpectString("type", "NFC"));
  tables.nfc = true;
  return absl::OkStatus();
}

absl::Status ReadPreTokenizer(const JsonNode& root, TokenizerTables& tables) {
  ASSIGN_OR_RETURN(const JsonNode sequence, root.Member("pre_tokenizer"));
  RETURN_IF_ERROR(sequence.ExpectString("type", "Sequence"));
  ASSIGN_OR_RETURN(const JsonNode steps, sequence.Member("pretokenizers"));
  RETURN_IF_ERROR(steps.IsArray());
  if (steps.value().size() != 2) {
    return steps.Unsupported(
        absl::StrCat("has ", steps.value().size(),
                     " steps; only Split and ByteLevel are supported"));
  }
  const JsonNode split = steps.Element(0);
  RETURN_IF_ERROR(split.ExpectString("type", "Split"));
  RETURN_IF_ERROR(split.ExpectString("behavior", "Isolated"));
  RETURN_IF_ERROR(split.ExpectBool("invert", false));
  ASSIGN_OR_RETURN(const JsonNode pattern, split.Member("pattern"));
  ASSIGN_OR_RETURN(const JsonNode regex, pattern.Member("Regex"));
  ASSIGN_OR_RETURN(tables.split_pattern, regex.String());

  const JsonNode byte_level = steps.Element(1);
  RETURN_IF_ERROR(byte_level.ExpectString("type", "ByteLevel"));
  RETURN_IF_ERROR(byte_level.ExpectBool("add_prefix_space", false));
  return byte_level.ExpectBool("use_regex", false);
}

// Neither the post-processor ByteLevel (it moves offsets) nor the flags of the
// decoder ByteLevel change an id or a byte; the reference sets truncation and
// padding anew on every call.
absl::Status CheckAroundModel(const JsonNode& root) {
  if (root.Has("post_processor")) {
    ASSIGN_OR_RETURN(const JsonNode post, root.Member("post_processor"));
    RETURN_IF_ERROR(post.ExpectString("type", "ByteLevel"));
  }
  ASSIGN_OR_RETURN(const JsonNode decoder, root.Member("decoder"));
  return decoder.ExpectString("type", "ByteLevel");
}

// unk_token and fuse_unk are not looked at: with a token for every byte nothing
// is unknown.
absl::Status CheckModelSettings(const JsonNode& model) {
  RETURN_IF_ERROR(model.ExpectString("type", "BPE"));
  RETURN_IF_ERROR(model.ExpectStringIfPresent("continuing_subword_prefix", ""));
  RETURN_IF_ERROR(model.ExpectStringIfPresent("end_of_word_suffix", ""));
  RETURN_IF_ERROR(model.ExpectBoolIfPresent("byte_fallback", false));
  RETURN_IF_ERROR(model.ExpectBoolIfPresent("ignore_merges", false));
  if (model.Has("dropout") && model.value()["dropout"] != 0) {
    const JsonNode dropout = model.Named("dropout");
    return dropout.Unsupported(
        absl::StrCat("is ", dropout.Shown(), "; only null is supported"));
  }
  return absl::OkStatus();
}

// ---- Ids ----

std::string IdLimit() {
  return absl::StrCat("must be an id in 0..", kMaxTokenIds - 1);
}

absl::StatusOr<int32_t> TokenId(const JsonNode& node) {
  const json& value = node.value();
  // Unsigned: a negative number is another type to the parser.
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() >= static_cast<uint64_t>(kMaxTokenIds)) {
    return node.Broken(absl::StrCat("is ", node.Shown(), "; ", IdLimit()));
  }
  return static_cast<int32_t>(value.get<uint64_t>());
}

// ---- Added tokens ----

absl::StatusOr<AddedToken> ReadAddedToken(const JsonNode& entry, int32_t id) {
  AddedToken token;
  token.id = id;
  ASSIGN_OR_RETURN(const JsonNode content, entry.Member("content"));
  ASSIGN_OR_RETURN(token.content, content.String());
  if (token.content.empty() || token.content.size() > kMaxAddedTokenBytes) {
    return content.Broken(absl::StrCat("has ", token.content.size(),
                                       " bytes; must be 1..",
                                       kMaxAddedTokenBytes));
  }
  for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) {
    RETURN_IF_ERROR(entry.ExpectBool(flag, false));
  }
  ASSIGN_OR_RETURN(const JsonNode special, entry.Member("special"));
  ASSIGN_OR_RETURN(token.special, special.Bool());
  return token;
}

absl::Status ReadAddedTokens(const JsonNode& root, AddedById& added) {
  if (!root.Has("added_tokens")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JsonNode list, root.Member("added_tokens"));
  RETURN_IF_ERROR(list.IsArray());
  for (size_t i = 0; i < list.value().size(); ++i) {
    const JsonNode entry = list.Element(i);
    ASSIGN_OR_RETURN(const JsonNode id_node, entry.Member("id"));
    ASSIGN_OR_RETURN(const int32_t id, TokenId(id_node));
    ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(entry, id));
    if (!added.emplace(id, std::move(token)).second) {
      return id_node.Broken(
          absl::StrCat("is ", id, ", the id of an earlier added token"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadAddedTokensDecoder(const JsonNode& root, AddedById& added) {
  if (!root.Has("added_tokens_decoder")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JsonNode decoder, root.Member("added_tokens_decoder"));
  RETURN_IF_ERROR(decoder.IsObject());
  absl::flat_hash_set<int32_t> seen;
  const json& items = decoder.value();
  for (auto item = items.begin(); item != items.end(); ++item) {
    const JsonNode entry = decoder.Item(item);
    const std::string& key = item.key();
    int32_t id = 0;
    if (!absl::SimpleAtoi(key, &id) || id < 0 || id >= kMaxTokenIds) {
      return decoder.Broken(
          absl::StrCat("has the key ", Quoted(key), "; ", IdLimit()));
    }
    if (!seen.insert(id).second) {
      return decoder.Broken(absl::StrCat("has id ", id, " twice"));
    }
    ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(entry, id));
    const auto known = added.find(id);
    if (known != added.end() && known->second.content != token.content) {
      return entry.Broken(absl::StrCat(
          "is ", entry.Named("content").Shown(),
          ", but tokenizer.json has that id for another added token"));
    }
    added[id] = std::move(token);
  }
  return absl::OkStatus();
}

// Settings of tokenizer_config.json that would change ids.
absl::Status ReadConfig(const TokenizerText& text, AddedById& added) {
  if (!text.config_json.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const json document,
      ParseJson(*text.config_json, text.config_name,
                {kMaxTokenizerJsonValues, kMaxTokenizerJsonDepth}));
  const JsonNode root(document, text.config_name);
  RETURN_IF_ERROR(root.IsObject());
  for (const char* key : {"add_prefix_space", "add_bos_token", "add_eos_token",
                          "split_special_tokens"}) {
    RETURN_IF_ERROR(root.ExpectBoolIfPresent(key, false));
  }
  return ReadAddedTokensDecoder(root, added);
}

// ---- Vocabulary and merges ----

// Every id that tables.byte_tokens and tables.token_bytes then have, by its
// spelling too: merges name tokens so.
absl::StatusOr<IdBySpelling> ReadVocabulary(const JsonNode& vocab,
                                            const AddedById& added,
                                            TokenizerTables& tables) {
  RETURN_IF_ERROR(vocab.IsObject());
  tables.byte_tokens.assign(kBytes, -1);
  IdBySpelling ids;
  const json& items = vocab.value();
  ids.reserve(items.size());
  for (auto item = items.begin(); item != items.end(); ++item) {
    const JsonNode entry = vocab.Item(item);
    const std::string& spelling = item.key();
    ASSIGN_OR_RETURN(const int32_t id, TokenId(entry));
    const auto same_id = added.find(id);
    // Some files list their added tokens here as well.
    if (same_id != added.end() && same_id->second.content == spelling) continue;
    if (same_id != added.end()) {
      return entry.Broken(
          absl::StrCat("is ", id, ", the id of an added token"));
    }
    std::optional<std::string> bytes = BytesOfSpelling(spelling);
    if (!bytes.has_value() || bytes->empty()) {
      return entry.Broken(
          "is spelled with characters outside the byte-level alphabet");
    }
    if (tables.token_bytes.size() <= static_cast<size_t>(id)) {
      tables.token_bytes.resize(id + 1);
    }
    std::string& slot = tables.token_bytes[id];
    if (!slot.empty()) {
      return entry.Broken(absl::StrCat("is ", id, ", the id of another token"));
    }
    slot = *std::move(bytes);
    ids.emplace(spelling, id);
    if (slot.size() == 1) {
      tables.byte_tokens[static_cast<uint8_t>(slot[0])] = id;
    }
  }
  for (int byte = 0; byte < kBytes; ++byte) {
    if (tables.byte_tokens[byte] < 0) {
      return vocab.Broken(
          absl::StrFormat("has no token for byte 0x%02X", byte));
    }
  }
  return ids;
}

// The id of a spelling that a merge names.
absl::StatusOr<int32_t> MergeToken(const JsonNode& merge,
                                   const IdBySpelling& ids,
                                   const std::string& spelling) {
  const auto found = ids.find(spelling);
  if (found != ids.end()) return found->second;
  return merge.Broken(absl::StrCat("names the token ", Quoted(spelling),
                                   ", which model.vocab lacks"));
}

// Both forms: "left right" and ["left", "right"].
absl::StatusOr<std::pair<std::string, std::string>> MergeSpelling(
    const JsonNode& merge) {
  const json& value = merge.value();
  if (value.is_array() && value.size() == 2 && value[0].is_string() &&
      value[1].is_string()) {
    return std::pair(value[0].get<std::string>(), value[1].get<std::string>());
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.rfind(' ') == space) {
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
  }
  return merge.Broken(
      absl::StrCat("is ", merge.Shown(),
                   "; must be two tokens, as \"a b\" or [\"a\", \"b\"]"));
}

absl::Status ReadMerges(const JsonNode& merges, const IdBySpelling& ids,
                        TokenizerTables& tables) {
  RETURN_IF_ERROR(merges.IsArray());
  absl::flat_hash_set<uint64_t> seen;
  tables.merges.reserve(merges.value().size());
  for (size_t i = 0; i < merges.value().size(); ++i) {
    const JsonNode entry = merges.Element(i);
    ASSIGN_OR_RETURN(const auto spelling, MergeSpelling(entry));
    Merge merge;
    ASSIGN_OR_RETURN(merge.left, MergeToken(entry, ids, spelling.first));
    ASSIGN_OR_RETURN(merge.right, MergeToken(entry, ids, spelling.second));
    ASSIGN_OR_RETURN(merge.result,
                     MergeToken(entry, ids, spelling.first + spelling.second));
    const uint64_t pair = static_cast<uint64_t>(merge.left) << 32 | merge.right;
    if (!seen.insert(pair).second) {
      return entry.Broken(absl::StrCat("is ", merge.left, " + ", merge.right,
                                       " in ids, which an earlier merge has"));
    }
    tables.merges.push_back(merge);
  }
  return absl::OkStatus();
}

// Writes the added tokens into the tables, after the vocabulary.
absl::Status PlaceAddedTokens(const JsonNode& root, const json& vocab,
                              AddedById added, TokenizerTables& tables) {
  if (added.size() > kMaxAddedTokens) {
    return root.Broken(absl::StrCat(
        "has ", added.size(), " added tokens; at most ", kMaxAddedTokens));
  }
  absl::flat_hash_set<std::string> contents;
  for (auto& [id, token] : added) {
    const auto twin = vocab.find(token.content);
    if (twin != vocab.end() && *twin != id) {
      return root.Broken(absl::StrCat("has ", Quoted(token.content),
                                      " as added token ", id,
                                      " and as model.vocab's ", twin->dump()));
    }
    if (!contents.insert(token.content).second) {
      return root.Broken(absl::StrCat("has the added token ",
                                      Quoted(token.content),
                                      " under two ids, one of them ", id));
    }
    if (tables.token_bytes.size() <= static_cast<size_t>(id)) {
      tables.token_bytes.resize(id + 1);
    }
    tables.token_bytes[id] = token.content;
    tables.added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

// ---- Files ----

// A whole regular file. NOT_FOUND when nothing is there.
absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  // A pipe or a device could keep us waiting for ever.
  if (status.type() != std::filesystem::file_type::regular) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a readable regular file"));
  }
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::strerror(errno)));
  }
  const auto size = static_cast<size_t>(file.tellg());
  if (size > kMaxTokenizerFileBytes) {
    return absl::DataLossError(absl::StrCat(
        path, ": has ", size, " bytes; at most ", kMaxTokenizerFileBytes));
  }
  std::string text(size, '\0');
  file.seekg(0);
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (!file) return absl::DataLossError(absl::StrCat(path, ": cannot be read"));
  return text;
}

}  // namespace

absl::StatusOr<TokenizerTables> ParseTokenizerTables(
    const TokenizerText& text) {
  ASSIGN_OR_RETURN(
      const json document,
      ParseJson(text.tokenizer_json, text.tokenizer_name,
                {kMaxTokenizerJsonValues, kMaxTokenizerJsonDepth}));
  const JsonNode root(document, text.tokenizer_name);
  TokenizerTables tables;
  AddedById added;
  RETURN_IF_ERROR(root.IsObject());
  RETURN_IF_ERROR(CheckNormalizer(root, tables));
  RETURN_IF_ERROR(ReadPreTokenizer(root, tables));
  RETURN_IF_ERROR(CheckAroundModel(root));
  ASSIGN_OR_RETURN(const JsonNode model, root.Member("model"));
  RETURN_IF_ERROR(CheckModelSettings(model));
  RETURN_IF_ERROR(ReadAddedTokens(root, added));
  RETURN_IF_ERROR(ReadConfig(text, added));
  ASSIGN_OR_RETURN(const JsonNode vocab, model.Member("vocab"));
  ASSIGN_OR_RETURN(const IdBySpelling ids,
                   ReadVocabulary(vocab, added, tables));
  ASSIGN_OR_RETURN(const JsonNode merges, model.Member("merges"));
  RETURN_IF_ERROR(ReadMerges(merges, ids, tables));
  RETURN_IF_ERROR(
      PlaceAddedTokens(root, vocab.value(), std::move(added), tables));
  return tables;
}

absl::StatusOr<TokenizerTables> ReadTokenizerTables(
    const std::string& model_dir) {
  TokenizerText text;
  text.tokenizer_name = absl::StrCat(model_dir, "/tokenizer.json");
  text.config_name = absl::StrCat(model_dir, "/tokenizer_config.json");
  ASSIGN_OR_RETURN(const std::string tokenizer, ReadFile(text.tokenizer_name));
  absl::StatusOr<std::string> config = ReadFile(text.config_name);
  if (!config.ok() && !absl::IsNotFound(config.status())) {
    return config.status();
  }
  text.tokenizer_json = tokenizer;
  if (config.ok()) text.config_json = *config;
  return ParseTokenizerTables(text);
}

}  // namespace phalanx

#include "gateway/cli/tokenize.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status.h"
#include "gateway/cli/default_model.h"
#include "gateway/cli/standard_output.h"
#include "gateway/cli/terminal_text.h"
#include "gateway/tokenizer/tokenizer.h"
#include "gateway/tokenizer/utf8.h"

namespace phalanx {
namespace {

// As many ids as a text of the longest kind could have, with room to spell
// them.
constexpr size_t kMaxIdBytes = 8 * kMaxTextBytes;

// Output is written in pieces, so that a reader sees the first early.
constexpr size_t kWriteBytes = size_t{64} << 10;

// Of `name`, to its end; more than `limit` bytes are refused.
absl::StatusOr<std::string> ReadAll(int fd, const std::string& name,
                                    size_t limit) {
  std::string text;
  constexpr size_t kChunk = size_t{1} << 20;
  while (true) {
    const size_t had = text.size();
    text.resize(had + kChunk);
    const ssize_t n = read(fd, text.data() + had, kChunk);
    text.resize(had + std::max<ssize_t>(n, 0));
    if (n < 0 && errno != EINTR)
      return absl::UnavailableError(
          absl::StrCat(name, " cannot be read: ", std::strerror(errno)));
    if (n == 0) return text;
    if (text.size() > limit)
      return absl::InvalidArgumentError(
          absl::StrCat(name, " has more than ", limit, " bytes"));
  }
}

absl::StatusOr<std::string> ReadInput(const TokenizeOptions& options) {
  if (options.text) return *options.text;
  const size_t limit = options.decode ? kMaxIdBytes : kMaxTextBytes;
  if (options.file && *options.file != "-") {
    const int fd = open(options.file->c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      return absl::NotFoundError(
          absl::StrCat("--file is ", *options.file,
                       "; it cannot be opened: ", std::strerror(errno)));
    auto text = ReadAll(fd, absl::StrCat("--file ", *options.file), limit);
    close(fd);
    return text;
  }
  if (isatty(STDIN_FILENO) == 1)
    std::fputs("phalanx tokenize: reads what is typed; Ctrl-D ends\n", stderr);
  return ReadAll(STDIN_FILENO, "standard input", limit);
}

// Ids with commas or blanks between them, as this verb and `generate` write
// them.
absl::StatusOr<std::vector<int32_t>> ParseIds(absl::string_view text,
                                              const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(", \t\r\n"), absl::SkipEmpty())) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(word, &id) || id < 0 || id >= tokenizer.vocab_size())
      return absl::InvalidArgumentError(absl::StrCat(
          "id ", ids.size() + 1, " is ", absl::CHexEscape(word.substr(0, 40)),
          "; must be in [0, ", tokenizer.vocab_size() - 1, "]"));
    if (tokenizer.TokenBytes(id).empty())
      return absl::InvalidArgumentError(absl::StrCat(
          "id ", ids.size() + 1, " is ", id, "; the model has no such token"));
    ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<std::vector<int32_t>> FindIds(const TokenizeOptions& options,
                                             const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(const std::string input, ReadInput(options));
  if (options.decode) return ParseIds(input, tokenizer);
  return tokenizer.Encode(input, /*match_added=*/!options.no_special);
}

std::string TokenJson(const Tokenizer& tokenizer, int32_t id) {
  const absl::string_view bytes = tokenizer.TokenBytes(id);
  nlohmann::ordered_json token = {{"id", id}};
  // JSON knows text alone; part of a code point is none.
  if (ValidUtf8Size(bytes) == bytes.size())
    token["text"] = std::string(bytes);
  else
    token["hex"] = absl::BytesToHexString(bytes);
  if (tokenizer.is_added(id)) token["added"] = true;
  if (tokenizer.is_special(id)) token["special"] = true;
  return token.dump();
}

// {"count":2,"ids":[...],"tokens":[{...},{...}]} and, of ids, "text".
absl::Status PrintJson(const TokenizeOptions& options,
                       const Tokenizer& tokenizer,
                       const std::vector<int32_t>& ids) {
  std::string out = absl::StrCat("{\"count\":", ids.size(), ",\"ids\":[",
                                 absl::StrJoin(ids, ","), "]");
  if (options.decode) {
    const nlohmann::json text = tokenizer.Decode(ids, options.no_special);
    absl::StrAppend(&out, ",\"text\":", text.dump());
  }
  absl::StrAppend(&out, ",\"tokens\":[");
  const char* comma = "";
  for (const int32_t id : ids) {
    absl::StrAppend(&out, comma, TokenJson(tokenizer, id));
    comma = ",";
    if (out.size() < kWriteBytes) continue;
    RETURN_IF_ERROR(WriteOut(out));
    out.clear();
  }
  return WriteOut(out + "]}\n");
}

// One line a token: its id, its piece.
absl::Status PrintPieces(const Tokenizer& tokenizer,
                         const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) {
    absl::StrAppend(&out, absl::StrFormat("%7d  ", id),
                    QuotedPiece(tokenizer.TokenBytes(id)),
                    tokenizer.is_special(id) ? "  special" : "", "\n");
    if (out.size() < kWriteBytes) continue;
    RETURN_IF_ERROR(WriteOut(out));
    out.clear();
  }
  return WriteOut(out);
}

// The text itself and no byte more; a terminal also gets a line end, and no
// control characters, which are commands there.
absl::Status PrintText(const std::string& text) {
  if (isatty(STDOUT_FILENO) != 1) return WriteOut(text);
  return WriteOut(WithoutControls(text) + "\n");
}

std::string QuotedByte(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    default:
      if (absl::ascii_isprint(static_cast<unsigned char>(c)))
        return std::string(1, c);
      return absl::StrFormat("\\x%02X", static_cast<unsigned char>(c));
  }
}

absl::Status Tokenize(const TokenizeOptions& options) {
  std::string model_dir = options.model_dir;
  if (model_dir.empty()) {
    ASSIGN_OR_RETURN(model_dir, DefaultModelDir());
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   Tokenizer::Load(model_dir));
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                   FindIds(options, *tokenizer));
  if (options.json) return PrintJson(options, *tokenizer, ids);
  if (options.ids) return WriteOut(absl::StrJoin(ids, ",") + "\n");
  if (options.decode)
    return PrintText(tokenizer->Decode(ids, options.no_special));
  return PrintPieces(*tokenizer, ids);
}

}  // namespace

std::string QuotedPiece(absl::string_view bytes) {
  std::string text = "\"";
  while (!bytes.empty()) {
    const Utf8Unit unit = FirstUtf8Unit(bytes);
    const absl::string_view character = bytes.substr(0, unit.size);
    bytes.remove_prefix(unit.size);
    // C1, which terminals obey, is two bytes: C2 80 to C2 9F.
    const bool c1 = unit.size == 2 && character[0] == '\xC2' &&
                    static_cast<unsigned char>(character[1]) < 0xA0;
    if (unit.kind == Utf8Kind::kWhole && unit.size > 1 && !c1)
      absl::StrAppend(&text, character);
    else
      for (const char c : character) text += QuotedByte(c);
  }
  return text + "\"";
}

void AddTokenizeFlags(CLI::App& verb, TokenizeOptions& o) {
  auto* text = verb.add_option("text", o.text,
                               "The text, or with --decode the ids; standard "
                               "input if not given");
  verb.add_option("--file", o.file, "The same from a file; - is standard input")
      ->excludes(text);
  verb.add_option("--model", o.model_dir,
                  "Folder with tokenizer.json; the small model that comes with "
                  "Phalanx if not given");
  auto* decode = verb.add_flag(
      "--decode", o.decode, "Ids to text: with commas or blanks between them");
  verb.add_flag("--no-special", o.no_special,
                "Tokens such as <|im_end|> that stand in the text are letters "
                "like any others; with --decode, special tokens are left out");
  auto* ids = verb.add_flag("--ids", o.ids,
                            "The ids alone on one line, as `generate "
                            "--token-ids` takes them")
                  ->excludes(decode);
  verb.add_flag("--json", o.json,
                "One JSON object: count, ids, and the tokens, each with its "
                "text, or its bytes in hex where they are part of a character")
      ->excludes(ids);
  verb.footer(
      "Without --ids or --json: one line a token, its id and its piece.\n"
      "Examples:\n"
      "  phalanx tokenize 'Hello!'\n"
      "  phalanx tokenize --model DIR --json < prompt.txt | jq .count\n"
      "  phalanx tokenize --ids 'Hello!' | phalanx tokenize --decode");
}

int RunTokenize(const TokenizeOptions& options) {
  const absl::Status status = Tokenize(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "phalanx tokenize: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace phalanx

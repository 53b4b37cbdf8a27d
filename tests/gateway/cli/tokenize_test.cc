#include "gateway/cli/tokenize.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/gateway/cli/program.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

Outcome Tokenize(std::vector<std::string> args, const std::string& input = "") {
  args.insert(args.begin(), "tokenize");
  return RunProgram("phalanx", args, input);
}

TEST(QuotedPiece, ShowsLettersOfAnyScriptAsTheyAre) {
  EXPECT_EQ(QuotedPiece(" Grüße 你"), "\" Grüße 你\"");
}

TEST(QuotedPiece, EscapesWhatEndsALineOrTheQuotes) {
  EXPECT_EQ(QuotedPiece("a\n\r\t\"\\'"), R"("a\n\r\t\"\\'")");
}

TEST(QuotedPiece, EscapesWhatATerminalObeys) {
  EXPECT_EQ(QuotedPiece("\x1B[m\x7F\xC2\x9B"), R"("\x1B[m\x7F\xC2\x9B")");
}

TEST(QuotedPiece, SpellsPartsOfCharactersInBytes) {
  EXPECT_EQ(QuotedPiece("\xE2\x82"), R"("\xE2\x82")");
  EXPECT_EQ(QuotedPiece("\x82z"), R"("\x82z")");
}

TEST(Tokenize, PrintsALineATokenWithItsPiece) {
  const Outcome outcome = Tokenize({"Hello!\n<|im_end|>"});

  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "    756  \"Hello\"\n"
            "      0  \"!\"\n"
            "    198  \"\\n\"\n"
            "    898  \"<|im_end|>\"  special\n");
}

TEST(Tokenize, PrintsIdsAloneWhereAskedTo) {
  EXPECT_EQ(Tokenize({"--ids", "Hello!"}).out, "756,0\n");
}

TEST(Tokenize, PrintsOneJsonObject) {
  const auto object =
      nlohmann::json::parse(Tokenize({"--json", "Hello€<|im_end|>"}).out);

  EXPECT_EQ(object["count"], 5);
  EXPECT_EQ(object["ids"], nlohmann::json({756, 158, 224, 105, 898}));
  EXPECT_EQ(object["tokens"][0],
            nlohmann::json({{"id", 756}, {"text", "Hello"}}));
  EXPECT_EQ(object["tokens"][1], nlohmann::json({{"id", 158}, {"hex", "e2"}}));
  EXPECT_EQ(object["tokens"][4]["special"], true);
}

TEST(Tokenize, ReadsStandardInput) {
  EXPECT_EQ(Tokenize({"--ids"}, "Hello!").out, "756,0\n");
}

TEST(Tokenize, ReadsAFile) {
  EXPECT_EQ(Tokenize({"--ids", "--file", "/dev/stdin"}, "Hello!").out,
            "756,0\n");
}

TEST(Tokenize, HasNoTokensOfAnEmptyText) {
  EXPECT_EQ(Tokenize({}, "").out, "");
  EXPECT_EQ(nlohmann::json::parse(Tokenize({"--json", ""}).out)["count"], 0);
}

TEST(Tokenize, TakesSpecialTokensForLettersWhereAskedTo) {
  EXPECT_EQ(Tokenize({"--ids", "<|im_end|>"}).out, "898\n");
  EXPECT_GT(Tokenize({"--ids", "--no-special", "<|im_end|>"}).out.size(), 5u);
}

TEST(Tokenize, TakesTheLongestTextThatTheGatewayTakes) {
  const std::string text(size_t{8} << 20, 'a');

  const Outcome there = Tokenize({"--ids"}, text);
  const Outcome back = Tokenize({"--decode"}, there.out);

  EXPECT_EQ(there.code, 0) << there.err;
  EXPECT_TRUE(back.out == text);
}

TEST(Tokenize, RefusesALongerTextWithTheLimit) {
  const Outcome outcome = Tokenize({}, std::string((size_t{8} << 20) + 1, 'a'));

  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err,
            "phalanx tokenize: standard input has more than 8388608 bytes\n");
}

TEST(Tokenize, RefusesInvalidUtf8WithTheBytesPosition) {
  for (const Outcome& outcome :
       {Tokenize({"ab\xFF"}), Tokenize({"--json"}, "ab\xE2\x82")}) {
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err,
              "phalanx tokenize: the text is not valid UTF-8 at byte 2\n");
  }
}

TEST(Tokenize, NamesAFileOrAModelThatIsNotThere) {
  EXPECT_EQ(Tokenize({"--file", "/nowhere/a"}).err,
            "phalanx tokenize: --file is /nowhere/a; it cannot be opened: No "
            "such file or directory\n");
  EXPECT_EQ(Tokenize({"--model", "/nowhere", "a"}).err,
            "phalanx tokenize: /nowhere/tokenizer.json: no such file\n");
}

TEST(Tokenize, SaysThatAFolderCannotBeRead) {
  EXPECT_THAT(Tokenize({"--file", "/"}).err,
              HasSubstr("--file / cannot be read: Is a directory"));
}

TEST(Tokenize, SaysThatItsOutputCannotBeWritten) {
  const Outcome closed = RunShell("$PHALANX tokenize a >&-");
  const Outcome full = RunShell("$PHALANX tokenize a >/dev/full");

  EXPECT_EQ(closed.code, 1);
  EXPECT_THAT(closed.err, HasSubstr("standard output cannot be written: Bad "));
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("standard output cannot be written: No "));
}

// As `head` does it: no message, and no more work for nobody.
TEST(Tokenize, EndsWithTheReaderOfItsPipe) {
  const Outcome outcome = RunShell(
      "$PHALANX tokenize | { read -r line; echo "
      "\"$line\"; }",
      std::string(size_t{1} << 20, 'b'));

  EXPECT_THAT(outcome.out, HasSubstr("\"b"));
  EXPECT_EQ(outcome.err, "");
}

TEST(Tokenize, DecodesWhatItEncoded) {
  const std::string text = "Grüße 你好 🎉\n<|im_end|>\t \"x\"\n";
  const std::string ids = Tokenize({"--ids"}, text).out;

  EXPECT_EQ(Tokenize({"--decode"}, ids).out, text);
  EXPECT_EQ(Tokenize({"--decode", ids}).out, text);
}

TEST(Tokenize, DecodesIdsWithBlanksBetweenThem) {
  EXPECT_EQ(Tokenize({"--decode", "756 0\n"}).out, "Hello!");
}

TEST(Tokenize, LeavesSpecialTokensOutWhereAskedTo) {
  EXPECT_EQ(Tokenize({"--decode", "756,898,0"}).out, "Hello<|im_end|>!");
  EXPECT_EQ(Tokenize({"--decode", "--no-special", "756,898,0"}).out, "Hello!");
}

TEST(Tokenize, DecodesToJson) {
  const auto object =
      nlohmann::json::parse(Tokenize({"--decode", "--json", "756,0"}).out);

  EXPECT_EQ(object["text"], "Hello!");
  EXPECT_EQ(object["count"], 2);
}

TEST(Tokenize, NamesWhatIsNoTokenId) {
  EXPECT_THAT(Tokenize({"--decode", "756,x7"}).err,
              HasSubstr("id 2 is x7; must be in [0, 904]"));
  EXPECT_THAT(Tokenize({"--decode", "905"}).err,
              HasSubstr("id 1 is 905; must be in [0, 904]"));
  EXPECT_THAT(Tokenize({"--decode", "0,0,99999999999"}).err,
              HasSubstr("id 3 is 99999999999; must be"));
}

}  // namespace
}  // namespace phalanx

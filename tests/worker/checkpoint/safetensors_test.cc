#include "worker/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kLost = absl::StatusCode::kDataLoss;

std::string TwoTensors() {
  return SafetensorsBytes({{"a.weight", {"BF16", {2, 3}, std::string(12, 'a')}},
                           {"b.norm", {"F32", {2}, std::string(8, 'b')}}});
}

TEST(ParseSafetensors, ListsTensorsInTheOrderOfTheirData) {
  const std::string file = TwoTensors();
  const auto tensors = ParseSafetensors(AsBytes(file), "x");
  ASSERT_OK(tensors);
  ASSERT_EQ(tensors->size(), 2u);
  const StoredTensor& b = (*tensors)[1];
  EXPECT_EQ((*tensors)[0].name, "a.weight");
  EXPECT_THAT((*tensors)[0].shape, testing::ElementsAre(2, 3));
  EXPECT_EQ(b.name, "b.norm");
  EXPECT_EQ(b.type, StoredType::kF32);
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(b.data.data()), b.data.size()),
      "bbbbbbbb");
}

TEST(ParseSafetensors, SkipsMetadata) {
  const std::string file = SafetensorsBytes(
      R"({"__metadata__":{"format":"pt"},
          "a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
      "x");
  const auto tensors = ParseSafetensors(AsBytes(file), "x");
  ASSERT_OK(tensors);
  EXPECT_EQ(tensors->size(), 1u);
}

TEST(ParseSafetensors, ReadsScalarsAndEmptyTensors) {
  const std::string file = SafetensorsBytes(
      {{"scalar", {"F32", {}, "1234"}}, {"empty", {"BF16", {0, 8}, ""}}});
  const auto tensors = ParseSafetensors(AsBytes(file), "x");
  ASSERT_OK(tensors);
  EXPECT_EQ(tensors->size(), 2u);
}

TEST(ParseSafetensors, ReadsTypesOfLessThanAByte) {
  const std::string file =
      SafetensorsBytes({{"a", {"F4", {3, 2}, std::string(3, 'x')}}});
  EXPECT_OK(ParseSafetensors(AsBytes(file), "x"));
}

TEST(ParseSafetensors, AcceptsAFileWithoutTensors) {
  EXPECT_OK(ParseSafetensors(AsBytes(SafetensorsBytes("{}", "")), "x"));
}

struct Refusal {
  const char* name;
  std::string json;
  absl::StatusCode code;
  const char* message;
};

class ParseSafetensorsRefuses : public testing::TestWithParam<Refusal> {};

// Every header is followed by 16 bytes of data.
TEST_P(ParseSafetensorsRefuses, NamingFileAndFault) {
  const std::string file =
      SafetensorsBytes(GetParam().json, std::string(16, 'd'));
  EXPECT_THAT(ParseSafetensors(AsBytes(file), "some.file"),
              StatusIs(GetParam().code, AllOf(HasSubstr("some.file: "),
                                              HasSubstr(GetParam().message))));
}

std::string Entry(const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}
std::string Named(const std::string& entry) { return "{\"t\":" + entry + "}"; }

INSTANTIATE_TEST_SUITE_P(
    Numbers, ParseSafetensorsRefuses,
    testing::Values(
        Refusal{"PastTheEnd", Named(Entry("U8", "[17]", "[0,17]")), kLost,
                "tensor t: data_offsets are [0,17]; the file has 16 bytes of "
                "data: truncated"},
        Refusal{"Backwards", Named(Entry("U8", "[1]", "[2,1]")), kLost,
                "data_offsets are [2,1]"},
        Refusal{"HugeOffsets",
                Named(Entry("U8", "[1]",
                            "[18446744073709551614,18446744073709551615]")),
                kLost, "data_offsets are [18446744073709551614"},
        Refusal{"OffsetsBeyond64Bits",
                Named(Entry("U8", "[1]", "[0,18446744073709551616]")), kLost,
                "tensor t: data_offsets is the number"},
        Refusal{"NegativeOffset", Named(Entry("U8", "[1]", "[-1,0]")), kLost,
                "the number -1"},
        Refusal{"OneOffset", Named(Entry("U8", "[1]", "[1]")), kLost,
                "data_offsets has 1 numbers; must have 2"},
        Refusal{"ShapeNeedsMore", Named(Entry("BF16", "[2,4]", "[0,8]")), kLost,
                "hold 8 bytes; shape [2,4] of BF16 needs 16"},
        Refusal{"ShapeOverflows",
                Named(Entry("F32", "[4294967296,4294967296,4]", "[0,16]")),
                kLost, "shape [4294967296,4294967296,4] of F32"},
        Refusal{"ShapeOverflowsBeforeZero",
                Named(Entry("F32", "[9223372036854775807,0]", "[0,0]")), kLost,
                "needs no such number"},
        Refusal{"ShapeOverflowsBehindZero",
                Named(Entry("F32", "[0,9223372036854775807]", "[0,0]")), kLost,
                "needs no such number"},
        Refusal{"HalfAByte", Named(Entry("F4", "[3]", "[0,2]")), kLost,
                "needs no such number"},
        Refusal{"ManyDimensions",
                Named(Entry("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]")), kInvalid,
                "tensor t: shape has more than 8 numbers"},
        Refusal{"Overlap",
                "{\"t\":" + Entry("U8", "[8]", "[0,8]") +
                    ",\"u\":" + Entry("U8", "[8]", "[7,15]") + "}",
                kLost, "tensor u: data_offsets begin at 7, inside tensor t"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Structure, ParseSafetensorsRefuses,
    testing::Values(
        Refusal{"UnknownType", Named(Entry("Q4_K", "[1]", "[0,1]")), kInvalid,
                "tensor t: dtype \"Q4_K\" is unknown"},
        Refusal{"TwiceTheName",
                "{\"t\":" + Entry("U8", "[1]", "[0,1]") +
                    ",\"t\":" + Entry("U8", "[1]", "[1,2]") + "}",
                kLost, "tensor t is there twice"},
        Refusal{"TwiceTheMember", R"({"t":{"dtype":"U8","dtype":"U8"}})", kLost,
                "tensor t: dtype is there twice"},
        Refusal{"LackingMember", R"({"t":{"dtype":"U8","shape":[1]}})", kLost,
                "tensor t lacks dtype, shape or data_offsets"},
        Refusal{"UnknownMember", R"({"t":{"strides":[1]}})", kLost,
                "tensor t: strides is no known member"},
        Refusal{"NumberForTensor", R"({"t":1})", kLost, "the number 1"},
        Refusal{"NestedObject", R"({"t":{"dtype":{}}})", kLost, "an object"},
        Refusal{"NestedArray", R"({"t":{"shape":[[1]]}})", kLost, "an array"},
        Refusal{"DeepMetadata", R"({"__metadata__":{"a":{"b":"c"}}})", kLost,
                "an object"},
        Refusal{"Fraction", R"({"t":{"shape":[1.5]}})", kLost, "1.5"},
        Refusal{"Null", R"({"t":null})", kLost, "null"},
        Refusal{"ArrayHeader", "[]", kLost, "header is an array"},
        Refusal{"NoJson", "hello", kLost, "not valid JSON at byte"},
        Refusal{"CutJson", R"({"t":{"dty)", kLost, "not valid JSON"},
        Refusal{"EmptyJson", "", kLost, "not valid JSON"},
        Refusal{"InvalidUtf8", "{\"\xff\":1}", kLost, "not valid JSON"},
        Refusal{"DeepBrackets", std::string(1 << 20, '['), kLost, "an array"},
        Refusal{"LongName", "{\"" + std::string(600, 'n') + "\":{}}", kInvalid,
                "tensor name of 600 bytes; at most 512"}),
    [](const auto& info) { return info.param.name; });

TEST(ParseSafetensors, RefusesAFileOfFewerBytesThanTheLength) {
  EXPECT_THAT(ParseSafetensors(AsBytes("1234567"), "f"),
              StatusIs(kLost, HasSubstr("the file has 7 bytes")));
}

TEST(ParseSafetensors, RefusesAHeaderLongerThanTheFile) {
  const std::string file = SafetensorsBytes("{}", "").substr(0, 9);
  EXPECT_THAT(ParseSafetensors(AsBytes(file), "f"),
              StatusIs(kLost, HasSubstr("header length is 2; the file has 1")));
}

TEST(ParseSafetensors, RefusesAHeaderLongerThanTheLimit) {
  const std::string file(16, '\xff');
  EXPECT_THAT(ParseSafetensors(AsBytes(file), "f"),
              StatusIs(kInvalid, HasSubstr("at most 104857600")));
}

TEST(ParseSafetensors, RefusesEveryTruncation) {
  const std::string file = TwoTensors();
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_FALSE(ParseSafetensors(AsBytes(file.substr(0, length)), "f").ok())
        << length;
}

// Bytes changed, removed, doubled and inserted at random places; what comes
// back, if anything does, lies inside the file.
TEST(ParseSafetensors, SurvivesMutatedFiles) {
  const std::string original = TwoTensors();
  std::mt19937 random(20261129);
  const std::string alphabet = "{}[]\",:0123456789-.eadtypeshape\\u\xff";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = original;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) {
      const size_t at = random() % file.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 5) {
        case 0:
          file[at] = static_cast<char>(random());
          break;
        case 1:
          file[at] = c;
          break;
        case 2:
          file.erase(at, 1 + random() % 8);
          break;
        case 3:
          file.insert(at, 1, c);
          break;
        default:
          file.insert(at, file.substr(at, random() % 16));
      }
      if (file.empty()) file = "x";
    }
    const auto tensors = ParseSafetensors(AsBytes(file), "f");
    if (!tensors.ok()) continue;
    ++accepted;
    const std::byte* begin = AsBytes(file).data();
    for (const StoredTensor& tensor : *tensors) {
      EXPECT_GE(tensor.data.data(), begin);
      EXPECT_LE(tensor.data.data() + tensor.data.size(), begin + file.size());
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(SafetensorsFile, MapsAFileOfARelease) {
  const auto file =
      SafetensorsFile::Open(GOLDEN_DIR "/models/moe_text/model.safetensors");
  ASSERT_OK(file);
  EXPECT_EQ((*file)->tensors().size(), 256u);
  EXPECT_EQ((*file)->header().size(), 8u + 28576u);
}

TEST(SafetensorsFile, SaysThatAFileIsMissing) {
  EXPECT_THAT(SafetensorsFile::Open("/no/such/file"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/no/such/file: No such file")));
}

TEST(SafetensorsFile, RefusesAFolder) {
  EXPECT_THAT(SafetensorsFile::Open(GOLDEN_DIR),
              StatusIs(kInvalid, HasSubstr("is not a regular file")));
}

TEST(SafetensorsFile, RefusesAnEmptyFile) {
  const TempFolder folder;
  folder.Write("a.safetensors", "");
  EXPECT_THAT(SafetensorsFile::Open(folder.path() + "/a.safetensors"),
              StatusIs(kLost, HasSubstr("the file has 0 bytes")));
}

}  // namespace
}  // namespace phalanx

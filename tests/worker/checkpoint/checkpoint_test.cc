#include "worker/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/weight_index.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kLost = absl::StatusCode::kDataLoss;
constexpr auto kMissing = absl::StatusCode::kNotFound;

std::string OneTensor(const std::string& name) {
  return SafetensorsBytes({{name, {"BF16", {1}, "xy"}}});
}

std::string Index(const nlohmann::json& weight_map) {
  return nlohmann::json{{"metadata", {{"total_size", 2}}},
                        {"weight_map", weight_map}}
      .dump();
}

TEST(Checkpoint, FollowsTheIndex) {
  const auto checkpoint = Checkpoint::Open(GOLDEN_DIR "/models/moe");
  ASSERT_OK(checkpoint);
  EXPECT_EQ(checkpoint->files().size(), 3u);
  EXPECT_EQ(checkpoint->tensors().size(), 119u);
}

TEST(Checkpoint, OpensASingleFile) {
  const auto checkpoint = Checkpoint::Open(GOLDEN_DIR "/models/moe_text");
  ASSERT_OK(checkpoint);
  EXPECT_EQ(checkpoint->files().size(), 1u);
}

TEST(Checkpoint, FindsTensorsByTheirName) {
  const auto checkpoint = Checkpoint::Open(GOLDEN_DIR "/models/moe");
  ASSERT_OK(checkpoint);
  ASSERT_NE(checkpoint->Find("lm_head.weight"), nullptr);
  EXPECT_THAT(checkpoint->Find("lm_head.weight")->shape,
              testing::ElementsAre(510, 64));
  EXPECT_EQ(checkpoint->Find("lm_head.weights"), nullptr);
}

TEST(Checkpoint, SaysThatAFolderHasNoModel) {
  const TempFolder folder;
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(kMissing, HasSubstr("has neither "
                                           "model.safetensors.index.json nor "
                                           "model.safetensors")));
}

TEST(Checkpoint, NamesAllMissingFiles) {
  const TempFolder folder;
  folder.Write("1.safetensors", OneTensor("a"));
  folder.Write("model.safetensors.index.json", Index({{"a", "1.safetensors"},
                                                      {"b", "2.safetensors"},
                                                      {"c", "3.safetensors"}}));
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(kMissing, AllOf(HasSubstr("2 of 3 files"),
                                       HasSubstr("2.safetensors"),
                                       HasSubstr("3.safetensors"))));
}

TEST(Checkpoint, NamesATruncatedFile) {
  const TempFolder folder;
  const std::string bytes = OneTensor("a");
  folder.Write("model.safetensors", bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(
      Checkpoint::Open(folder.path()),
      StatusIs(kLost, AllOf(HasSubstr(folder.path() + "/model.safetensors"),
                            HasSubstr("tensor a"), HasSubstr("truncated"))));
}

TEST(Checkpoint, RefusesATensorInTwoFiles) {
  const TempFolder folder;
  folder.Write("1.safetensors", OneTensor("a"));
  folder.Write("2.safetensors", SafetensorsBytes({{"a", {"U8", {1}, "x"}},
                                                  {"b", {"U8", {1}, "y"}}}));
  folder.Write("model.safetensors.index.json",
               Index({{"a", "1.safetensors"}, {"b", "2.safetensors"}}));
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(kLost, HasSubstr("tensor a is in two files")));
}

TEST(Checkpoint, RefusesAnIndexThatTheFilesBelie) {
  const TempFolder folder;
  folder.Write("1.safetensors", OneTensor("a"));
  folder.Write("model.safetensors.index.json",
               Index({{"a", "1.safetensors"}, {"b", "1.safetensors"}}));
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(kLost, AllOf(HasSubstr("1 tensors are not in the files"),
                                    HasSubstr("b (1.safetensors)"))));
}

struct BadIndex {
  const char* name;
  std::string text;
  const char* message;
};

class ParseWeightIndexRefuses : public testing::TestWithParam<BadIndex> {};

TEST_P(ParseWeightIndexRefuses, NamingTheFault) {
  EXPECT_THAT(ParseWeightIndex(GetParam().text),
              StatusIs(kInvalid, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseWeightIndexRefuses,
    testing::Values(
        BadIndex{"Parent", Index({{"a", "../x.safetensors"}}),
                 "weight_map[\"a\"] is \"../x.safetensors\"; must be the plain "
                 "name"},
        BadIndex{"Absolute", Index({{"a", "/etc/x.safetensors"}}),
                 "must be the plain name"},
        BadIndex{"Subfolder", Index({{"a", "b/x.safetensors"}}),
                 "must be the plain name"},
        BadIndex{"Hidden", Index({{"a", "..safetensors"}}),
                 "must be the plain name"},
        BadIndex{"ZeroByte", Index({{"a", std::string("a\0.safetensors", 14)}}),
                 "must be the plain name"},
        BadIndex{"OtherFile", Index({{"a", "model.bin"}}),
                 "must be the plain name"},
        BadIndex{"EmptyName", Index({{"a", ""}}), "must be the plain name"},
        BadIndex{"LongName",
                 Index({{"a", std::string(300, 'x') + ".safetensors"}}),
                 "must be the plain name"},
        BadIndex{"Number", Index({{"a", 1}}), "is a number"},
        BadIndex{"Object", Index({{"a", {{"b", "c"}}}}), "is an object"},
        BadIndex{"Array", R"({"weight_map": []})", "weight_map is an array"},
        BadIndex{"Absent", "{}", "weight_map is absent"},
        BadIndex{"Twice", R"({"weight_map": {}, "weight_map": {}})",
                 "weight_map is there twice"},
        BadIndex{"TensorTwice",
                 R"({"weight_map": {"a": "1.safetensors",
                     "a": "2.safetensors"}})",
                 "has \"a\" twice"},
        BadIndex{"Cut", "{\"weight_map\": {", "not valid JSON at byte"},
        BadIndex{"Empty", "", "not valid JSON"},
        BadIndex{"Deep", "{\"a\":" + std::string(100000, '['),
                 "nests deeper than 64"},
        BadIndex{"Root", "[]", "JSON is an array"}),
    [](const auto& info) { return info.param.name; });

TEST(Checkpoint, RefusesAnIndexWithoutFiles) {
  const TempFolder folder;
  folder.Write("model.safetensors.index.json", Index(nlohmann::json::object()));
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(kInvalid, HasSubstr("weight_map names 0 files")));
}

TEST(Checkpoint, NamesTheIndexThatIsWrong) {
  const TempFolder folder;
  folder.Write("model.safetensors.index.json", "{");
  EXPECT_THAT(
      Checkpoint::Open(folder.path()),
      StatusIs(kInvalid, HasSubstr("/model.safetensors.index.json: not")));
}

}  // namespace
}  // namespace phalanx

#include "gateway/tokenizer/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace phalanx {
namespace {

using testing::ElementsAre;

// Tokens 0..255 are the bytes; merge i makes token 256 + i.
struct Vocabulary {
  std::vector<std::string> token_bytes;
  std::vector<Merge> merges;
  std::vector<int32_t> byte_tokens;

  explicit Vocabulary(const std::vector<std::pair<int, int>>& pairs) {
    for (int byte = 0; byte < 256; ++byte) {
      token_bytes.push_back(std::string(1, static_cast<char>(byte)));
      byte_tokens.push_back(byte);
    }
    for (const auto& [left, right] : pairs) {
      merges.push_back({left, right, static_cast<int32_t>(token_bytes.size())});
      token_bytes.push_back(token_bytes[left] + token_bytes[right]);
    }
  }

  std::vector<int32_t> Encode(const std::string& piece) const {
    const Bpe bpe(token_bytes, merges, byte_tokens);
    Bpe::Scratch scratch;
    std::vector<int32_t> ids;
    bpe.Encode(piece, scratch, ids);
    return ids;
  }
};

// The definition, word by word: look for the best pair, merge it, again.
std::vector<int32_t> EncodePlainly(const Vocabulary& vocabulary,
                                   const std::string& piece) {
  std::map<std::pair<int32_t, int32_t>, size_t> rank;
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    rank[{vocabulary.merges[i].left, vocabulary.merges[i].right}] = i;
  }
  std::vector<int32_t> ids;
  for (const char byte : piece) ids.push_back(static_cast<uint8_t>(byte));
  while (true) {
    size_t best = vocabulary.merges.size();
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = rank.find({ids[i], ids[i + 1]});
      if (found != rank.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == vocabulary.merges.size()) return ids;
    ids[at] = vocabulary.merges[best].result;
    ids.erase(ids.begin() + at + 1);
  }
}

TEST(Bpe, AnEmptyPieceHasNoTokens) {
  EXPECT_THAT(Vocabulary({}).Encode(""), ElementsAre());
}

TEST(Bpe, BytesThatDoNotMergeStayBytes) {
  EXPECT_THAT(Vocabulary({}).Encode(std::string("a\0\xFF", 3)),
              ElementsAre('a', 0, 0xFF));
}

TEST(Bpe, TheLowerRankMergesFirst) {
  // "bc" before "ab".
  EXPECT_THAT(Vocabulary({{'b', 'c'}, {'a', 'b'}}).Encode("abc"),
              ElementsAre('a', 256));
}

TEST(Bpe, OfEqualPairsTheLeftmostMergesFirst) {
  EXPECT_THAT(Vocabulary({{'a', 'a'}}).Encode("aaa"), ElementsAre(256, 'a'));
}

TEST(Bpe, ATokenThatMergesCannotReachIsNotUsed) {
  // "abc" is token 257, but "bc" takes the b away from it.
  Vocabulary vocabulary({{'a', 'b'}, {256, 'c'}, {'b', 'c'}});
  std::swap(vocabulary.merges[0], vocabulary.merges[2]);
  EXPECT_THAT(vocabulary.Encode("abc"), ElementsAre('a', 258));
}

TEST(Bpe, RandomVocabulariesAgreeWithTheDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::pair<int, int>> pairs;
    std::map<std::pair<int, int>, bool> seen;
    for (int i = 0; i < 40; ++i) {
      const auto pick = [&] {
        const int made = static_cast<int>(pairs.size());
        return random() % 2 == 0 && made > 0
                   ? 256 + static_cast<int>(random() % made)
                   : 'a' + static_cast<int>(random() % 3);
      };
      const std::pair<int, int> pair(pick(), pick());
      if (!std::exchange(seen[pair], true)) pairs.push_back(pair);
    }
    Vocabulary vocabulary(pairs);
    std::shuffle(vocabulary.merges.begin(), vocabulary.merges.end(), random);
    for (int i = 0; i < 10; ++i) {
      std::string piece;
      for (size_t size = random() % 60; piece.size() < size;) {
        piece += static_cast<char>('a' + random() % 3);
      }
      ASSERT_EQ(vocabulary.Encode(piece), EncodePlainly(vocabulary, piece))
          << piece;
    }
  }
}

TEST(Bpe, AMillionEqualLettersMergeInFarLessThanQuadraticTime) {
  std::vector<std::pair<int, int>> pairs = {{'a', 'a'}};
  for (int i = 256; i < 270; ++i) pairs.push_back({i, i});
  const Vocabulary vocabulary(pairs);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(vocabulary.Encode(std::string(1 << 20, 'a')).size(),
            size_t{1} << 5);
  // Half a second where it was written; quadratic would be hours.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

}  // namespace
}  // namespace phalanx

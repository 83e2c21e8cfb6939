// Language modelling: predict the next character, or word, of any text file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "thinwire/error.h"
#include "trainer/data/dataset.h"
#include "trainer/data/file.h"

namespace thinwire::trainer {
namespace {

constexpr std::int64_t kCharacterWindow = 64;
constexpr std::int64_t kWordWindow = 35;
constexpr std::size_t kMostWords = 10'000;
constexpr std::string_view kUnknown = "<unk>";
constexpr std::uint64_t kMostBytes = 1ull << 30;  // text and tokens are held in memory

using Token = std::uint16_t;

// The last tenth is the test set.
std::size_t train_part(std::size_t tokens) { return tokens - tokens / 10; }

// Consecutive windows without overlap. The label of a token is the next token, so the windows need
// one token more than they contain; tokens that are left over at the end are not used.
class Windows final : public Dataset {
 public:
  Windows(std::vector<Token> tokens, std::int64_t window, std::size_t classes)
      : tokens_(std::move(tokens)) {
    shape_.kind = ExampleShape::Kind::sequence;
    shape_.length = window;
    shape_.classes = static_cast<std::int64_t>(classes);
  }

  ExampleShape shape() const override { return shape_; }
  std::size_t size() const override { return (tokens_.size() - 1) / shape_.tokens(); }

  void read(std::size_t index, const Augmentation* /*augmentation*/,
            const ExampleSlot& slot) const override {
    const Token* first = tokens_.data() + index * shape_.tokens();
    std::copy_n(first, shape_.tokens(), slot.tokens.begin());
    std::copy_n(first + 1, shape_.tokens(), slot.labels.begin());
  }

 private:
  std::vector<Token> tokens_;
  ExampleShape shape_;
};

// Throws unless the test set has a window and the token after it. The training set is larger.
void check_length(const DataFile& file, std::size_t tokens, std::int64_t window,
                  std::string_view unit) {
  const auto least = static_cast<std::size_t>(10 * (window + 1));
  if (tokens >= least) return;
  file.refuse(
      fmt::format("is too short ({} {}; at least {} are needed), because the last "
                  "tenth is the test set and must fill a window of {}",
                  tokens, unit, least, window));
}

DataPair split_windows(const std::vector<Token>& tokens, std::int64_t window, std::size_t classes) {
  const auto middle = tokens.begin() + static_cast<std::ptrdiff_t>(train_part(tokens.size()));
  return {std::make_unique<Windows>(std::vector<Token>(tokens.begin(), middle), window, classes),
          std::make_unique<Windows>(std::vector<Token>(middle, tokens.end()), window, classes)};
}

// The tokens are the bytes that occur anywhere in the text, in the order of their values.
DataPair load_characters(const DataFile& file, std::string_view text) {
  check_length(file, text.size(), kCharacterWindow, "characters");
  std::array<bool, 256> occurs{};
  for (const char c : text) occurs[static_cast<unsigned char>(c)] = true;
  std::array<Token, 256> token_of{};
  Token classes = 0;
  for (std::size_t byte = 0; byte < occurs.size(); ++byte) {
    if (occurs[byte]) token_of[byte] = classes++;
  }
  std::vector<Token> tokens(text.size());
  std::transform(text.begin(), text.end(), tokens.begin(),
                 [&](char c) { return token_of[static_cast<unsigned char>(c)]; });
  return split_windows(tokens, kCharacterWindow, classes);
}

std::vector<std::string_view> split_words(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  std::vector<std::string_view> words;
  for (std::size_t begin = text.find_first_not_of(kSpace); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpace, end);
  }
  return words;
}

// Token 0 is <unk>. The others are the most frequent words of the training set, in the order of
// frequency; equally frequent ones are in alphabetical order.
std::unordered_map<std::string_view, Token> make_vocabulary(
    std::span<const std::string_view> words) {
  std::unordered_map<std::string_view, std::size_t> counts;
  for (const std::string_view word : words) ++counts[word];
  counts.erase(kUnknown);
  std::vector<std::pair<std::string_view, std::size_t>> ranking(counts.begin(), counts.end());
  std::sort(ranking.begin(), ranking.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  ranking.resize(std::min(ranking.size(), kMostWords));
  std::unordered_map<std::string_view, Token> vocabulary{{kUnknown, Token{0}}};
  for (const auto& [word, count] : ranking) {
    vocabulary.emplace(word, static_cast<Token>(vocabulary.size()));
  }
  return vocabulary;
}

DataPair load_words(const DataFile& file, std::string_view text) {
  const std::vector<std::string_view> words = split_words(text);
  check_length(file, words.size(), kWordWindow, "words");
  const auto vocabulary = make_vocabulary(std::span(words).first(train_part(words.size())));
  std::vector<Token> tokens(words.size());
  std::transform(words.begin(), words.end(), tokens.begin(), [&](std::string_view word) {
    const auto found = vocabulary.find(word);
    return found == vocabulary.end() ? Token{0} : found->second;
  });
  return split_windows(tokens, kWordWindow, vocabulary.size());
}

}  // namespace

DataPair load_text(const std::string& argument, std::uint64_t /*seed*/) {
  constexpr std::string_view kWordPrefix = "word:";
  const bool by_word = argument.starts_with(kWordPrefix);
  const std::string path = by_word ? argument.substr(kWordPrefix.size()) : argument;
  if (path.empty()) {
    throw ConfigError("data 'text': it needs a file; text:FILE (by character) or text:word:FILE");
  }
  DataFile file(path, 0, "text:FILE and text:word:FILE take any plain text");
  if (file.size() == 0) file.refuse("is empty");
  if (file.size() > kMostBytes) {
    file.refuse(fmt::format("is too long ({} bytes; at most {})", file.size(), kMostBytes));
  }
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(file.size()));
  file.read(bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return by_word ? load_words(file, text) : load_characters(file, text);
}

}  // namespace thinwire::trainer

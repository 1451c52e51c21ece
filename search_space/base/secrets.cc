#include "search_space/base/secrets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwright {
namespace {

constexpr char kMask = '*';

// The rule for random texts. A text of n random letters and digits has about 4.3 bits a character
// at 24 characters and 4.6 at 32, and two of three neighbours are of different classes (upper case,
// lower case, digit). Names made of words have as many bits, but change their class less often.
constexpr std::size_t kLeastRandomLength = 24;
constexpr double kLeastBits = 4.0;
constexpr double kLeastChangeRatio = 0.4;

enum class CharClass { kLower, kUpper, kDigit, kOther };

CharClass ClassOf(char c) {
  if (c >= 'a' && c <= 'z') return CharClass::kLower;
  if (c >= 'A' && c <= 'Z') return CharClass::kUpper;
  return c >= '0' && c <= '9' ? CharClass::kDigit : CharClass::kOther;
}

bool IsAlnum(char c) { return ClassOf(c) != CharClass::kOther; }
bool IsUrlSafe(char c) { return IsAlnum(c) || c == '-' || c == '_'; }
bool IsBase64(char c) { return IsUrlSafe(c) || c == '+' || c == '/'; }
bool IsUpperOrDigit(char c) {
  return ClassOf(c) == CharClass::kUpper || ClassOf(c) == CharClass::kDigit;
}
// RFC 6750, section 2.1, and the dots of JSON web tokens.
bool IsBearer(char c) { return IsBase64(c) || c == '.' || c == '~' || c == '='; }

// The beginning of a kind of token, and what follows it (workloads/measure/masking.json names the
// sources).
struct Shape {
  std::string_view begin;
  bool (*is_part)(char);
  std::size_t least;  // characters after the beginning
};
constexpr Shape kShapes[] = {
    {"hf_", IsAlnum, 20},           {"ghp_", IsAlnum, 20},     {"gho_", IsAlnum, 20},
    {"ghu_", IsAlnum, 20},          {"ghs_", IsAlnum, 20},     {"ghr_", IsAlnum, 20},
    {"github_pat_", IsUrlSafe, 20}, {"glpat-", IsUrlSafe, 20}, {"gldt-", IsUrlSafe, 20},
    {"glrt-", IsUrlSafe, 20},       {"glcbt-", IsUrlSafe, 20}, {"AKIA", IsUpperOrDigit, 16},
    {"ASIA", IsUpperOrDigit, 16},   {"xoxa-", IsUrlSafe, 10},  {"xoxb-", IsUrlSafe, 10},
    {"xoxe-", IsUrlSafe, 10},       {"xoxp-", IsUrlSafe, 10},  {"xoxr-", IsUrlSafe, 10},
    {"xoxs-", IsUrlSafe, 10},       {"AIza", IsUrlSafe, 35},   {"sk-", IsUrlSafe, 20},
};

class Masker {
 public:
  explicit Masker(std::string& text) : text_(text) {}

  void Run() {
    for (std::size_t i = 0; i < text_.size(); ++i) {
      const bool begins_word = i == 0 || !IsAlnum(text_[i - 1]);
      if (!begins_word) continue;
      MaskShape(i);
      MaskWebToken(i);
      MaskBearer(i);
    }
    MaskPasswords();
    MaskRandom();
  }

 private:
  [[nodiscard]] bool Begins(std::size_t at, std::string_view word) const {
    return std::string_view(text_).substr(at, word.size()) == word;
  }
  // Returns the end of the part from a position on whose characters are of a kind.
  template <typename IsPart>
  [[nodiscard]] std::size_t EndOf(std::size_t at, const IsPart& is_part) const {
    while (at < text_.size() && is_part(text_[at])) ++at;
    return at;
  }
  void Mask(std::size_t begin, std::size_t end) {
    std::fill(text_.begin() + static_cast<std::ptrdiff_t>(begin),
              text_.begin() + static_cast<std::ptrdiff_t>(end), kMask);
  }

  void MaskShape(std::size_t at) {
    for (const Shape& shape : kShapes) {
      if (!Begins(at, shape.begin)) continue;
      const std::size_t end = EndOf(at + shape.begin.size(), shape.is_part);
      if (end - at >= shape.begin.size() + shape.least) Mask(at, end);
    }
  }

  // RFC 7519, section 3: two or three parts in base64url, of which the first begins with {" .
  void MaskWebToken(std::size_t at) {
    constexpr std::string_view kBegin = "eyJ";
    constexpr std::size_t kLeast = 8;
    if (!Begins(at, kBegin)) return;
    const std::size_t first = EndOf(at + kBegin.size(), IsUrlSafe);
    if (first - at < kBegin.size() + kLeast || first == text_.size() || text_[first] != '.') return;
    const std::size_t second = EndOf(first + 1, IsUrlSafe);
    if (second == first + 1) return;
    const bool has_third = second < text_.size() && text_[second] == '.';
    Mask(at, has_third ? EndOf(second + 1, IsUrlSafe) : second);
  }

  void MaskBearer(std::size_t at) {
    constexpr std::string_view kWord = "bearer ";
    constexpr std::size_t kLeast = 8;
    for (std::size_t i = 0; i < kWord.size(); ++i) {
      if (at + i >= text_.size()) return;
      const char c = text_[at + i];
      const char lower = ClassOf(c) == CharClass::kUpper ? static_cast<char>(c - 'A' + 'a') : c;
      if (lower != kWord[i]) return;
    }
    const std::size_t begin = EndOf(at + kWord.size(), [](char c) { return c == ' '; });
    const std::size_t end = EndOf(begin, IsBearer);
    if (end - begin >= kLeast) Mask(begin, end);
  }

  // RFC 3986, section 3.2.1: scheme://user:password@host.
  void MaskPasswords() {
    constexpr std::string_view kBegin = "://";
    const auto is_part = [](char c) { return c > ' ' && c != '/' && c != '@'; };
    for (std::size_t at = text_.find(kBegin); at != std::string::npos;
         at = text_.find(kBegin, at + 1)) {
      const std::size_t user = at + kBegin.size();
      const std::size_t end = EndOf(user, is_part);
      if (end == text_.size() || text_[end] != '@') continue;
      const std::size_t colon = text_.find(':', user);
      if (colon < end) Mask(colon + 1, end);
    }
  }

  void MaskRandom() {
    for (std::size_t begin = 0; begin < text_.size();) {
      if (!IsBase64(text_[begin])) {
        ++begin;
        continue;
      }
      const std::size_t end = EndOf(begin, IsBase64);
      MaskRandomIn(begin, end);
      begin = end;
    }
  }

  // A slash stands in base64 and between the parts of a path. What is random on both sides of one
  // is base64.
  void MaskRandomIn(std::size_t begin, std::size_t end) {
    if (end - begin < kLeastRandomLength) return;
    const std::string_view run = std::string_view(text_).substr(begin, end - begin);
    if (run.find('/') == run.npos || !IsPath(run)) {
      if (IsRandom(run)) Mask(begin, end);
      return;
    }
    for (std::size_t at = begin; at < end;) {
      const std::size_t slash = std::min(text_.find('/', at), end);
      if (IsRandom(std::string_view(text_).substr(at, slash - at))) Mask(at, slash);
      at = slash + 1;
    }
  }

  // Returns true if the run begins with a slash, or a part of it is a word: of one class, or with a
  // first letter that is a capital.
  static bool IsPath(std::string_view run) {
    if (run.starts_with('/')) return true;
    while (!run.empty()) {
      const std::size_t slash = std::min(run.find('/'), run.size());
      const std::string_view part = run.substr(0, slash);
      constexpr std::size_t kWord = 3;
      const std::string_view rest = part.empty() ? part : part.substr(1);
      if (part.size() >= kWord && std::ranges::all_of(rest, [](char c) {
            return ClassOf(c) == CharClass::kLower || c == '-' || c == '_';
          })) {
        return true;
      }
      run.remove_prefix(std::min(slash + 1, run.size()));
    }
    return false;
  }

  // Returns the pieces between '-' and '_' that are neither hexadecimal nor of one class: hashes,
  // UUIDs and numbers are not random in this sense.
  static std::string Pieces(std::string_view run) {
    std::string kept;
    while (!run.empty()) {
      const std::size_t end = std::min(run.find_first_of("-_"), run.size());
      const std::string_view piece = run.substr(0, end);
      if (!IsHex(piece) && !IsOfOneClass(piece)) kept += piece;
      run.remove_prefix(std::min(end + 1, run.size()));
    }
    return kept;
  }
  static bool IsHex(std::string_view piece) {
    return piece.find_first_not_of("0123456789abcdef") == piece.npos ||
           piece.find_first_not_of("0123456789ABCDEF") == piece.npos;
  }
  static bool IsOfOneClass(std::string_view piece) {
    return std::ranges::all_of(piece, [&](char c) { return ClassOf(c) == ClassOf(piece.front()); });
  }

  static bool IsRandom(std::string_view run) {
    const std::string pieces = Pieces(run);
    return pieces.size() >= kLeastRandomLength && HasAllClasses(pieces) &&
           BitsOf(pieces) >= kLeastBits && ChangeRatio(pieces) >= kLeastChangeRatio;
  }
  static bool HasAllClasses(std::string_view text) {
    std::array<int, 4> counts = {};
    for (const char c : text) ++counts.at(static_cast<std::size_t>(ClassOf(c)));
    return counts[0] > 0 && counts[1] > 0 && counts[2] > 0;
  }
  // Shannon's entropy of the frequencies of its characters, in bits a character.
  static double BitsOf(std::string_view text) {
    std::array<int, 256> counts = {};
    for (const char c : text) ++counts.at(static_cast<unsigned char>(c));
    double bits = 0;
    for (const int count : counts) {
      if (count == 0) continue;
      const double share = count / static_cast<double>(text.size());
      bits -= share * std::log2(share);
    }
    return bits;
  }
  // The share of neighbours that are of different classes.
  static double ChangeRatio(std::string_view text) {
    int changes = 0;
    for (std::size_t i = 1; i < text.size(); ++i)
      changes += ClassOf(text[i]) != ClassOf(text[i - 1]);
    return changes / static_cast<double>(text.size() - 1);
  }

  std::string& text_;
};

}  // namespace

void MaskSecrets(std::string& text) { Masker(text).Run(); }

}  // namespace meshwright

#include "tests/fuzz/mutations.h"

#include <algorithm>

namespace meshwright {
namespace {

// Bounds of types, the letters of the formats, and bytes that are no text.
constexpr std::string_view kWords[] = {
    "-1",
    "0",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "18446744073709551616",
    "1e999",
    "-0.0",
    "nan",
    "\"",
    "'",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "${",
    "$((",
    "<<E",
    "#",
    "%",
    "%2",
    ",",
    ":",
    "=",
    "\n",
    "\t",
    "\r",
    "\x1b[2J",
    "\xff",
    "\xc3",
    "\xe2\x80",
    "\xc2\x85",
    "\xed\xa0\x80",
    "null",
    "&a *a",
};
constexpr std::size_t kLongest = 64 << 10;

// The generator SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
// 2014).
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  // Returns a number below the limit, which is at least 1.
  std::size_t Below(std::size_t limit) {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return (mixed ^ (mixed >> 31)) % limit;
  }

 private:
  std::uint64_t state_;
};

std::string_view PartOf(std::string_view text, std::size_t longest, Numbers& numbers) {
  const std::size_t start = numbers.Below(text.size() + 1);
  return text.substr(start, 1 + numbers.Below(longest));
}

void Edit(std::string& text, std::string_view other, Numbers& numbers) {
  const std::size_t at = numbers.Below(text.size() + 1);
  switch (numbers.Below(7)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(numbers.Below(256));
      break;
    case 1:
      text.erase(at, 1 + numbers.Below(16));
      break;
    case 2:
      text.erase(at);
      break;
    case 3:
      text.insert(at, PartOf(other, 64, numbers));
      break;
    case 4: {
      const std::string part(PartOf(text, 8, numbers));
      std::string many;
      for (std::size_t left = numbers.Below(kLongest); left > part.size(); left -= part.size()) {
        many += part;
        if (part.empty()) break;
      }
      text.insert(at, many);
      break;
    }
    default: {
      const std::string_view word = kWords[numbers.Below(std::size(kWords))];
      text.replace(at, numbers.Below(3) == 0 ? word.size() : 0, word);
    }
  }
}

}  // namespace

std::string Mutated(std::string_view seed, std::string_view other, std::uint64_t number) {
  Numbers numbers(number);
  std::string text(seed);
  for (std::size_t edits = 1 + numbers.Below(4); edits > 0; --edits) Edit(text, other, numbers);
  text.resize(std::min(text.size(), 2 * kLongest));
  return text;
}

}  // namespace meshwright

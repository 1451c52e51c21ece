#include "server/tuner/import/text/shell_arithmetic.h"

#include <cctype>
#include <charconv>

namespace meshwright {
namespace {

constexpr int kMaxParentheses = 64;
constexpr long long kMaxValue = 1'000'000'000'000;  // far from overflow when multiplied by itself

class Arithmetic {
 public:
  explicit Arithmetic(std::string_view text) : text_(text) {}

  std::optional<long long> Value() {
    const auto value = Sum(0);
    Skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void Skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  char Operator(std::string_view operators) {
    Skip();
    if (at_ == text_.size() || operators.find(text_[at_]) == std::string_view::npos) return '\0';
    return text_[at_++];
  }

  std::optional<long long> Sum(int depth) {
    auto value = Product(depth);
    while (value.has_value()) {
      const char c = Operator("+-");
      if (c == '\0') return value;
      const auto right = Product(depth);
      if (!right.has_value()) return std::nullopt;
      value = Checked(c == '+' ? *value + *right : *value - *right);
    }
    return value;
  }

  std::optional<long long> Product(int depth) {
    auto value = Unit(depth);
    while (value.has_value()) {
      const char c = Operator("*/%");
      if (c == '\0') return value;
      const auto right = Unit(depth);
      if (!right.has_value() || (c != '*' && *right == 0)) return std::nullopt;
      if (c == '*') {
        const bool is_small = *right == 0 || kMaxValue / (*right < 0 ? -*right : *right) >=
                                                 (*value < 0 ? -*value : *value);
        value = is_small ? std::optional(*value * *right) : std::nullopt;
      } else {
        value = c == '/' ? *value / *right : *value % *right;
      }
    }
    return value;
  }

  std::optional<long long> Unit(int depth) {
    if (depth > kMaxParentheses) return std::nullopt;
    if (Operator("-") != '\0') {
      const auto value = Unit(depth + 1);
      return value.has_value() ? std::optional(-*value) : std::nullopt;
    }
    if (Operator("(") != '\0') {
      const auto value = Sum(depth + 1);
      return Operator(")") != '\0' ? value : std::nullopt;
    }
    Skip();
    long long value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ = static_cast<std::size_t>(end - text_.data());
    return Checked(value);
  }

  static std::optional<long long> Checked(long long value) {
    return value > kMaxValue || value < -kMaxValue ? std::nullopt : std::optional(value);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<long long> ShellArithmetic(std::string_view text) { return Arithmetic(text).Value(); }

}  // namespace meshwright

#include "proto/json/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "search_space/base/clean_text.h"

namespace meshwright {
namespace {

// The deepest nesting that is read. The schema has nine levels; reading and destroying a tree takes
// stack for each.
constexpr std::size_t kMaxDepth = 64;

// Builds the tree from the values that nlohmann's reader reports one by one.
class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(std::int64_t value) override { return Add(value); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      return Add(static_cast<double>(value));
    }
    return Add(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string&) override { return Add(value); }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) override { return false; }  // text has no binary values
  bool start_object(std::size_t) override { return Open(JsonObject()); }
  bool start_array(std::size_t) override { return Open(JsonArray()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(std::string& name) override {
    std::get<JsonObject>(open_.back()->value).emplace_back(std::move(name), JsonValue());
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& exception) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::string_view what = exception.what();
    const std::size_t end = what.find("] ");
    error_ = CleanText(what.substr(end == std::string_view::npos ? 0 : end + 2), {});
    return false;
  }

  [[nodiscard]] const std::string& error() const { return error_; }
  JsonValue root() && { return std::move(root_); }

 private:
  template <typename Value>
  JsonValue& Place(Value value) {
    if (open_.empty()) {
      root_.value = std::move(value);
      return root_;
    }
    if (auto* object = std::get_if<JsonObject>(&open_.back()->value)) {
      JsonValue& member = object->back().second;
      member.value = std::move(value);
      return member;
    }
    return std::get<JsonArray>(open_.back()->value).emplace_back(JsonValue{std::move(value)});
  }
  template <typename Value>
  bool Add(Value value) {
    Place(std::move(value));
    return true;
  }
  template <typename Value>
  bool Open(Value value) {
    if (open_.size() == kMaxDepth) {
      error_ = fmt::format("nested deeper than {} levels", kMaxDepth);
      return false;
    }
    // The value stays in place while it is open, because its container does not grow until it
    // closes.
    open_.push_back(&Place(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  JsonValue root_;
  std::vector<JsonValue*> open_;  // from the root inwards
  std::string error_;
};

// Returns the JSON with DEL and C1 escaped too. JSON permits them, but terminals obey them.
std::string EscapedControls(std::string json) {
  constexpr char kDelete = '\x7f';
  constexpr char kFirstOfC1 = '\xc2';  // first byte of two; the second is below 0xa0
  if (json.find_first_of(std::string{kDelete, kFirstOfC1}) == std::string::npos) return json;
  std::string escaped;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto next = static_cast<unsigned char>(i + 1 < json.size() ? json[i + 1] : '\xff');
    if (json[i] == kDelete) {
      escaped += "\\u007f";
    } else if (json[i] == kFirstOfC1 && next < 0xa0) {
      escaped += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      escaped += json[i];
    }
  }
  return escaped;
}

}  // namespace

absl::StatusOr<JsonValue> ReadJsonTree(std::string_view text) {
  TreeBuilder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return absl::InvalidArgumentError(builder.error());
  }
  return std::move(builder).root();
}

std::string QuotedJson(std::string_view text) {
  // Nearly all texts have nothing to escape.
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, is_plain)) return fmt::format("\"{}\"", text);
  return EscapedControls(
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace meshwright

#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/status.h"
#include "server/tuner/import/text/setting.h"

namespace meshwright {

// A note about keys that no reader takes.
enum class KeyUse {
  kIrrelevant,   // changes neither the time nor the memory of a step
  kNotModelled,  // changes them in a way that plans and workloads do not state
};

// A row of a table of keys. A key that ends with '*' stands for all that begin like it.
struct OtherKey {
  std::string_view key = {};
  KeyUse use = KeyUse::kIrrelevant;
  std::string_view reason = {};  // "data", "learning rate"; or what is not modelled
};

// Short names for the columns of the tables of other keys.
namespace other_keys {
inline constexpr std::string_view kData = "data";
inline constexpr std::string_view kRate = "learning rate and length";
inline constexpr std::string_view kLogs = "logs and checks";
inline constexpr std::string_view kFiles = "checkpoints";
inline constexpr std::string_view kStart = "how the job starts";
inline constexpr KeyUse kNone = KeyUse::kIrrelevant;
inline constexpr KeyUse kUnpriced = KeyUse::kNotModelled;
}  // namespace other_keys

// A key that was read and not used.
struct UnusedKey {
  std::string key = {};
  std::string reason = {};  // empty: the key is not known
  bool operator==(const UnusedKey&) const = default;
};

// Hands out settings by key, remembers which were taken, and collects what is wrong with them. So
// every setting is taken, known to be of no use, or reported.
class SettingReader {
 public:
  explicit SettingReader(std::vector<Setting> settings);

  // Returns true if the key is stated, also by a value such as false or null. Does not take it.
  [[nodiscard]] bool Has(std::string_view key) const;

  // Returns true if the key is stated and the value that counts is not null. Does not take it.
  [[nodiscard]] bool IsSet(std::string_view key) const;

  // Each takes the value of a key and returns nullopt if it is not stated, null or wrong. The last
  // of several settings with the same key counts, as for argparse.
  std::optional<int> Int(std::string_view key);
  // Takes a degree of parallelism, from 1 to 40,000, so that the product of two is an int; 1 if it
  // is not stated, is `unset`, or is wrong.
  int Degree(std::string_view key, std::optional<int> unset = std::nullopt);
  std::optional<double> Number(std::string_view key);
  std::optional<bool> Bool(std::string_view key);
  std::optional<std::string> Text(std::string_view key);
  // Takes a list: words of a command, "1,2,3", or a list of a file.
  std::vector<std::string> List(std::string_view key);
  std::vector<int> Ints(std::string_view key);
  // Returns true if the switch is on: stated without a value, or true.
  bool Switch(std::string_view key) { return Bool(key).value_or(false); }

  // Takes a value that must be one of the words of a table.
  template <typename T>
  std::optional<T> Choice(std::string_view key,
                          std::span<const std::pair<std::string_view, T>> words) {
    const std::optional<std::string> word = Text(key);
    if (!word.has_value()) return std::nullopt;
    std::string known;
    for (const auto& [name, value] : words) {
      if (name == *word) return value;
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    Refuse(key, *word + "; known here: " + known);
    return std::nullopt;
  }

  // Records that a setting is wrong. The description begins with its value.
  void Refuse(std::string_view key, std::string description);
  void Note(std::string note) { notes_.push_back(std::move(note)); }

  // Returns the settings that nobody took, in their order, each with the reason of its row.
  std::vector<UnusedKey> TakeRest(std::span<const OtherKey> table);

  // Removes every setting for which `is_part` is true and returns them.
  std::vector<Setting> Extract(const std::function<bool(const Setting&)>& is_part);

  [[nodiscard]] const std::vector<FieldViolation>& violations() const { return violations_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Entry {
    Setting setting = {};
    bool is_taken = false;
  };
  const Setting* Take(std::string_view key);

  std::vector<Entry> entries_;
  std::vector<FieldViolation> violations_;
  std::vector<std::string> notes_;
};

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace google::protobuf {
class Message;
class FieldDescriptor;
}  // namespace google::protobuf

namespace meshwright {

// Reads the stated fields of one message by name and collects what is wrong with them, under the
// message's path. By name, because the name is what a mistake is reported with: one word says which
// field is read and what it is called. A name that the message does not have is a bug.
class MessageReader {
 public:
  // `message` and `found` must outlive the reader.
  MessageReader(const google::protobuf::Message& message, std::string path,
                std::vector<FieldViolation>& found)
      : message_(&message), path_(std::move(path)), found_(&found) {}

  // Return nullopt if the field is not stated.
  [[nodiscard]] std::optional<int> Int(std::string_view field) const;
  [[nodiscard]] std::optional<std::int64_t> Int64(std::string_view field) const;
  [[nodiscard]] std::optional<double> Double(std::string_view field) const;
  [[nodiscard]] std::optional<bool> Bool(std::string_view field) const;
  [[nodiscard]] std::optional<std::string> Text(std::string_view field) const;
  [[nodiscard]] std::optional<MessageReader> Child(std::string_view field) const;

  [[nodiscard]] std::vector<int> Ints(std::string_view field) const;
  [[nodiscard]] std::vector<std::string> Texts(std::string_view field) const;
  [[nodiscard]] std::vector<MessageReader> Children(std::string_view field) const;

  // A field that holds a word of a closed set; another word is a mistake and reads as nothing.
  template <typename Enum>
  [[nodiscard]] std::optional<Enum> Choice(std::string_view field) const {
    const std::optional<std::string> word = Text(field);
    if (!word.has_value()) return std::nullopt;
    const std::optional<Enum> choice = ParseChoice<Enum>(*word);
    if (!choice.has_value()) AddWordMistake(field, *word, AllowedWords<Enum>());
    return choice;
  }

  // The value, or a mistake and a default value when `field` is not stated.
  template <typename Value>
  [[nodiscard]] Value Required(std::string_view field, const std::optional<Value>& value) const {
    if (value.has_value()) return *value;
    Add(field, "missing; required");
    return Value();
  }
  [[nodiscard]] int RequiredInt(std::string_view field) const {
    return Required(field, Int(field));
  }

  // "model.layer_count"
  [[nodiscard]] std::string At(std::string_view field) const;
  // `description` as in FieldViolation.
  void Add(std::string_view field, std::string description) const;
  void RequirePositive(std::string_view field, double value) const;
  // Tells if a mistake of the field, or inside it, has been found.
  [[nodiscard]] bool HasMistakes(std::string_view field) const;
  void AddWordMistake(std::string_view field, const std::string& word,
                      const std::string& allowed) const;

 private:
  [[nodiscard]] const google::protobuf::FieldDescriptor& Field(std::string_view name) const;
  // Returns null if the field is not stated.
  [[nodiscard]] const google::protobuf::FieldDescriptor* Stated(std::string_view name) const;

  const google::protobuf::Message* message_;
  std::string path_;
  std::vector<FieldViolation>* found_;
};

}  // namespace meshwright

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

enum class ShellTokenKind { kWord, kArray, kOperator, kHereDocument };

// A part of a shell script. Words keep their quotes and variables.
struct ShellToken {
  ShellTokenKind kind = ShellTokenKind::kWord;
  std::string text = {};                // a word; "NAME=" or "NAME+=" of an array; an operator
  std::vector<std::string> items = {};  // of an array; or the text of a here-document
  int line = 0;
};

// Splits a script into words, operators ("\n", ";", "&&", "||", "|", "&", ";;", "(", ")", ">",
// ">>",
// "<", "<<<"), arrays and here-documents. Comments are left out.
std::vector<ShellToken> LexShell(std::string_view script);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright {

// Returns the seed with a few edits, which are the same for the same number on every machine. Some
// insert a part of `other`, which libFuzzer does too. Unlike its edits, some repeat a part up to
// 64 KiB, which finds parsers that call themselves for each bracket.
std::string Mutated(std::string_view seed, std::string_view other, std::uint64_t number);

}  // namespace meshwright

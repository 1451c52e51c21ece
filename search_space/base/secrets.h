#pragma once

#include <cstddef>
#include <string>

namespace meshwright {

// The bytes around a part of a log that are looked at with it, because a secret may begin before
// the part or end after it. Longer secrets than this are found only from their beginning on.
inline constexpr std::size_t kSecretMargin = 4096;

// Overwrites what looks like a secret with '*', byte for byte, so that positions in a log stay:
// tokens by their known beginnings (hf_, ghp_, AKIA, sk-, JSON web tokens and others), what follows
// "Bearer", the password of a URL, and texts that are as random as only keys are (docs/secrets.md).
// Commit hashes, checksums, UUIDs and the ids of studies and plans stay.
void MaskSecrets(std::string& text);

}  // namespace meshwright

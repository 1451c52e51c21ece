#include "recorder/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cstdlib>

namespace meshwright {
namespace {

// OpenSSL counts bytes as unsigned char.
const unsigned char* Unsigned(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// libcrypto's digests fail when memory has run out and for no other reason that can happen here.
void CheckDone(int done) {
  if (done != 1) std::abort();
}

}  // namespace

std::string ToBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and a final zero
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), Unsigned(bytes),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), Unsigned(text),
                                   static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  // It counts the zeros that '=' stands for.
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  bytes.resize(static_cast<std::size_t>(size) - padding);
  // It also takes white space and stray bits; one value has one text.
  if (ToBase64(bytes) != text) return std::nullopt;
  return bytes;
}

void Sha256::Free::operator()(evp_md_ctx_st* context) const noexcept { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CheckDone(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::Add(std::string_view piece) {
  CheckDone(EVP_DigestUpdate(context_.get(), piece.data(), piece.size()));
}

std::string Sha256::Hex() const {
  const std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  CheckDone(EVP_MD_CTX_copy_ex(copy.get(), context_.get()));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned int size = 0;
  CheckDone(EVP_DigestFinal_ex(copy.get(), digest.data(), &size));
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest.at(i));
  return hex;
}

}  // namespace meshwright

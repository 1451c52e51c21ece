#include "search_space/digest/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>

#include "search_space/digest/base_encoding.h"

namespace meshwright {
namespace {

// OpenSSL's digests fail only when memory has run out.
void CheckDone(int done) {
  if (done != 1) std::abort();
}

}  // namespace

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
  return ToHex({reinterpret_cast<const char*>(digest.data()), size});
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 digest;
  digest.Add(bytes);
  return digest.Hex();
}

}  // namespace meshwright

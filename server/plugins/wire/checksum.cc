#include "server/plugins/wire/checksum.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

namespace meshwright {
namespace {

constexpr std::size_t kReadBytes = 1 << 16;

// A digest that cannot be made has no memory to be made in.
void CheckDone(int result) {
  if (result != 1) std::abort();
}

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    CheckDone(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
  }
  void Add(std::string_view bytes) {
    CheckDone(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
  }
  [[nodiscard]] std::string Hex() const {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes = {};
    unsigned length = 0;
    CheckDone(EVP_DigestFinal_ex(context_.get(), bytes.data(), &length));
    return ToHex({reinterpret_cast<const char*>(bytes.data()), length});
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

std::string ToHex(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::optional<std::string> FromHex(std::string_view text) {
  std::string bytes(text.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return std::nullopt;
    bytes[i] = static_cast<char>(value);
  }
  if (ToHex(bytes) != text) return std::nullopt;  // an odd digit, or capitals: one value, one text
  return bytes;
}

std::string Checksum(std::string_view bytes) {
  Digest digest;
  digest.Add(bytes);
  return digest.Hex();
}

absl::StatusOr<std::string> FileChecksum(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("{} cannot be read", path));
  Digest digest;
  std::vector<char> part(kReadBytes);
  while (in) {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    digest.Add({part.data(), static_cast<std::size_t>(in.gcount())});
  }
  if (in.bad()) return absl::NotFoundError(fmt::format("{} cannot be read", path));
  return digest.Hex();
}

}  // namespace meshwright

#include "search_space/base/secrets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  std::string name;
  std::string before;  // stays
  std::string secret;  // is masked
  std::string after;   // stays
};

// None of these is a key of anybody.
const Case kSecrets[] = {
    {"HuggingFace", "HF_TOKEN=", "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH", "\n"},
    {"GitHub", "cloning with ", "ghp_0123456789abcdefghijABCDEFGHIJ012345", ", then"},
    {"GitHubFine", "", "github_pat_11ABCDEFG0123456789_abcdefghijklmnop", ""},
    {"GitLab", "remote: ", "glpat-abcdefghij0123456789", " ok"},
    {"Aws", "key AKIA: ", "AKIAIOSFODNN7EXAMPLE", "."},
    {"Slack", "", "xoxb-123456789012-abcdefGHIJKL", " posted"},
    {"Google", "?key=", "AIzaSyA-0123456789abcdefghijklmnopqrstu", "&x=1"},
    {"ModelProvider", "api ", "sk-proj-abcdefghij0123456789", "\""},
    {"WebToken", "cookie: ", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "; path"},
    {"UnsignedWebToken", "", "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0", " "},
    {"Bearer", "Authorization: BEARER ", "abcd.efgh~ij+kl/mn==", "\r\n"},
    {"UrlPassword", "postgres://ann:", "topsecret", "@db/runs"},
    {"ColonInPassword", "https://ann:", "a:b:c", "@host:8080/"},
    // 32 random letters and digits have about 4.6 bits a character and change class at 0.62 of
    // their neighbours.
    {"Random32", "DATABASE_PASS ", "q7Rk2ZpX9vTn4LwB8mYc3HsJ6dFgA1eU", " end"},
    {"Random24", "x ", "q7Rk2ZpX9vTn4LwB8mYc3HsJ", ""},
    {"Base64WithSlashes", "AWS_SECRET_ACCESS_KEY ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY9",
     ""},
    {"Base64Url", "cursor ", "q7Rk2Zp-X9vTn4LwB8mYc3_HsJ6dFgA1eU", ""},
};

class SecretsTest : public testing::TestWithParam<Case> {};

TEST_P(SecretsTest, AreOverwrittenByteForByte) {
  const Case& one = GetParam();
  std::string text = one.before + one.secret + one.after;
  MaskSecrets(text);
  EXPECT_EQ(text, one.before + std::string(one.secret.size(), '*') + one.after);
}

INSTANTIATE_TEST_SUITE_P(All, SecretsTest, testing::ValuesIn(kSecrets),
                         [](const auto& param) { return param.param.name; });

const std::vector<std::string> kPlain = {
    // Commits, checksums, UUIDs, of devices too, in either case.
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "123e4567-e89b-12d3-a456-426614174000",
    "123E4567-E89B-12D3-A456-426614174000",
    "GPU-5c8e1f2a-9b7d-4e3c-8f6a-1d2b3c4e5f60",
    "MIG-GPU-5c8e1f2a-9b7d-4e3c-8f6a-1d2b3c4e5f60/7/0",
    // Ids, digests and keys of our own.
    "study-0123456789ab-t12-a3",
    "calibration-0123456789abcdef0123456789abcdef",
    "m-fedcba9876543210fedcba9876543210",
    "tp4,pp2,dp16,mbs1,1f1b,zero1,sp,rc=selective:core_attn",
    "tensor_parallel=8 pipeline_parallel=4 virtual_pipeline=2",
    // Names of models, classes, symbols, nodes, pods and files.
    "Qwen2.5-72B-Instruct-GPTQ-Int4",
    "meta-llama/Llama-3.1-405B-Instruct-FP8",
    "Llama2ForCausalLMWithTensorParallelism",
    "checkpoint-Llama-2-70b-hf-TP8-PP4-step000123",
    "NVIDIA-H100-80GB-HBM3",
    "TransformerEngineLayerNormColumnParallelLinear",
    "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_21cosh_kernel_cudaERNS_"
    "18TensorIteratorBaseE",
    "/usr/lib/python3.11/site-packages/TransformerEngine/PyTorch/Float8Tensor.py",
    "Megatron-LM/megatron/core/pipeline_parallel/schedules/ForwardBackward1F1B",
    "events.out.tfevents.1700000000.gpu-node-17.cluster.local.12345.0",
    "train-7b-worker-5d8f7c9b6d-x7k2p",
    "2026-01-31T23:59:59.123456Z rank 17: loss 2.34567890123456789",
    "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NCCL_IB_HCA=mlx5_0,mlx5_1",
    "https://huggingface.co/docs/transformers/main_classes/trainer",
    "git@github.com:NVIDIA/Megatron-LM.git",
    "http://proxy.example:3128",
    "ask-me-about-the-sk-learn-estimators",
    "bearer of news",
    "abcdefghijklmnopqrstuvwxyz0123456789",
    "AAAAAAAAAAAAAAAAAAAAAAAAaaaaaaaaaaaaaaaaaaaa1",
    "",
};

TEST(SecretsTest, PlainTextStays) {
  for (const std::string& plain : kPlain) {
    std::string text = plain;
    MaskSecrets(text);
    EXPECT_EQ(text, plain);
  }
}

TEST(SecretsTest, EachLineIsLookedAt) {
  std::string text = "step 1\nhf_aBcDeFgHiJkLmNoPqRsTuVwX\nstep 2 sk-abcdefghij0123456789\n";
  MaskSecrets(text);
  EXPECT_EQ(text, "step 1\n" + std::string(27, '*') + "\nstep 2 " + std::string(23, '*') + "\n");
}

// A text of a megabyte is no trouble, whatever is in it.
TEST(SecretsTest, LongTextsAreRead) {
  for (const std::string part : {"a", "aB3", "://", "eyJ", "/", "hf_", "bearer "}) {
    std::string text;
    while (text.size() < (1U << 20)) text += part;
    const std::size_t size = text.size();
    MaskSecrets(text);
    EXPECT_EQ(text.size(), size);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

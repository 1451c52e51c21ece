#include "search_space/import/other_files.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace meshwright {
namespace {

// A file that has both keys, or the first if the second is empty.
struct OtherFile {
  std::string_view first;
  std::string_view second;
  std::string_view what;
};
constexpr std::string_view kAdapter =
    "the file of an adapter; the config.json of its base model is wanted";
constexpr std::string_view kMetaParameters =
    "a params.json of Meta, which has no feed-forward size; the config.json of the same model from "
    "the Hugging Face hub is wanted";
constexpr OtherFile kOtherFiles[] = {
    {"peft_type", "", kAdapter},
    {"adapter_config", "", kAdapter},
    {"n_layers", "ffn_dim_multiplier", kMetaParameters},
    {"n_layers", "multiple_of", kMetaParameters},
    {"tokenizer_class", "added_tokens_decoder",
     "a tokenizer's file; the config.json beside it is wanted"},
    {"weight_map", "", "an index of weight files; the config.json beside it is wanted"},
    {"_from_model_config", "",
     "a file of settings for generation; the config.json beside it is wanted"},
};

// Classes and types of models that predict something else than the next token.
constexpr std::string_view kOtherHeads[] = {
    "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM",
    "ForImageClassification",    "ForSpeechSeq2Seq",       "ForPreTraining"};
constexpr std::string_view kEncoders[] = {
    "bert",       "roberta",    "xlm-roberta", "albert",     "distilbert", "electra", "deberta",
    "deberta-v2", "modernbert", "mpnet",       "nomic_bert", "vit",        "clip",    "whisper",
    "t5",         "mt5",        "bart",        "mbart",      "pegasus"};

}  // namespace

std::string_view WhatOtherFile(const nlohmann::json& config) {
  const auto* found = std::ranges::find_if(kOtherFiles, [&](const OtherFile& file) {
    return config.contains(file.first) && (file.second.empty() || config.contains(file.second));
  });
  return found == std::end(kOtherFiles) ? std::string_view() : found->what;
}

std::string ArchitectureOf(const nlohmann::json& config) {
  const auto found = config.find("architectures");
  const bool has_one =
      found != config.end() && found->is_array() && !found->empty() && found->front().is_string();
  return has_one ? found->front().get<std::string>() : "";
}

std::string WhyNoDecoder(const nlohmann::json& config) {
  const auto flag = config.find("is_encoder_decoder");
  if (flag != config.end() && flag->is_boolean() && flag->get<bool>()) {
    return "a model with an encoder and a decoder";
  }
  const std::string name = ArchitectureOf(config);
  const auto ends = [&](std::string_view head) { return name.ends_with(head); };
  if (std::ranges::any_of(kOtherHeads, ends)) return name + ", which has no language-model head";
  const auto type = config.find("model_type");
  const bool is_encoder =
      type != config.end() && type->is_string() &&
      std::ranges::find(kEncoders, type->get_ref<const std::string&>()) != std::end(kEncoders);
  return is_encoder ? "of the type " + type->get<std::string>() + ", an encoder" : "";
}

}  // namespace meshwright

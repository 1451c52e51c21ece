#pragma once

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Returns the question of Llama-2-7B on one node of eight A100.
inline v1::TuneRequest SmallQuestion() {
  v1::TuneRequest question;
  v1::Model& model = *question.mutable_model();
  model.set_name("llama2-7b");
  model.set_layer_count(32);
  model.set_hidden_size(4096);
  model.set_ffn_hidden_size(11008);
  model.set_attention_head_count(32);
  model.set_kv_head_count(32);
  model.set_head_dim(128);
  model.set_vocab_size(32000);
  model.set_mlp("swiglu");
  model.set_norm("rmsnorm");
  question.mutable_workload()->set_sequence_length(2048);
  question.mutable_workload()->set_global_batch_size(16);
  v1::NodePool& pool = *question.mutable_cluster()->add_pools();
  pool.set_name("a");
  pool.set_chip("nvidia-a100-sxm4-80gb");
  pool.set_node_count(1);
  pool.set_devices_per_node(8);
  return question;
}

// Returns the question of GPT-3-175B on 3,072 A100, which has the largest space that a test can
// wait for.
inline v1::TuneRequest BigQuestion() {
  v1::TuneRequest question = SmallQuestion();
  v1::Model& model = *question.mutable_model();
  model.set_name("gpt3-175b");
  model.set_layer_count(96);
  model.set_hidden_size(12288);
  model.set_ffn_hidden_size(49152);
  model.set_attention_head_count(96);
  model.set_kv_head_count(96);
  model.set_head_dim(128);
  model.set_vocab_size(51200);
  model.set_mlp("gelu");
  question.mutable_workload()->set_global_batch_size(1536);
  question.mutable_cluster()->mutable_pools(0)->set_node_count(384);
  return question;
}

}  // namespace meshwright

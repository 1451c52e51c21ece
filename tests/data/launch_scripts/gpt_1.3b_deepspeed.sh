# Source: microsoft/Megatron-DeepSpeed examples_deepspeed/rebase/ds_pretrain_gpt_1.3B.sh
dir=`pwd`
seq_len=2048
num_layers=24
hidden_size=2048
num_attn_heads=16
global_batch_size=512
lr=2.0e-4
min_lr=1.0e-6
train_tokens_in_billion=300
train_tokens=$((${train_tokens_in_billion} * 1000000000))
train_samples=$(( 300 * 1000000000 * 2 / ${seq_len} ))
mp_size=2
pp_size=2
no_pp="false"
zero_stage=1
num_gpus=$(($(ds_ssh nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)-2))
dp_size=$(( ${num_gpus} / ${pp_size} / ${mp_size} ))
batch_size=2
activation_checkpoint="true"
current_time=$(date "+%Y.%m.%d_%H.%M.%S")
vocab_path="gpt2-vocab.json"
if [ ! -f "$vocab_path" ]; then
    wget https://example.org/gpt2-vocab.json
fi
jobname="gpt_tok${train_tokens_in_billion}B_g${num_gpus}"
if [[ $zero_stage -gt 0 ]]; then
    jobname="${jobname}_z${zero_stage}"
fi
checkpoint_path="/blob/checkpoint/${jobname}"
data_options=" \
    --vocab-file ${vocab_path} \
    --data-path pile \
    --data-impl mmap"
megatron_options=" \
    --override-opt_param-scheduler \
    --adam-beta1 0.9 \
    --tensor-model-parallel-size ${mp_size} \
    --init-method-std 0.013 \
    --micro-batch-size ${batch_size} \
    --exit-duration-in-mins 30000000 \
    --global-batch-size ${global_batch_size} \
    --num-layers ${num_layers} \
    --hidden-size ${hidden_size} \
    --num-attention-heads ${num_attn_heads} \
    --seq-length ${seq_len} \
    --max-position-embeddings ${seq_len} \
    --train-tokens ${train_tokens} \
    --train-samples ${train_samples} \
    --lr ${lr} --min-lr ${min_lr} --hysteresis 2 --fp16 --seed 1234 \
    --load ${checkpoint_path} \
    --no-async-tensor-model-parallel-allreduce \
    --log-batch-size-to-tensorboard"
if [ "${activation_checkpoint}" = "true" ]; then
megatron_options="${megatron_options} \
    --checkpoint-activations"
fi
config_json="ds_config_gbs${global_batch_size}_mbs${batch_size}.json"
sed "s/GBSIZE/${global_batch_size}/" ds_config_gpt_TEMPLATE.json \
    | sed "s/MBSIZE/${batch_size}/" \
      > ${config_json}
deepspeed_options=" \
    --deepspeed \
    --deepspeed_config ${config_json} \
    --zero-stage ${zero_stage} \
    --pipeline-model-parallel-size ${pp_size}"
if [[ "${no_pp}" = "true" ]]; then
deepspeed_options="${deepspeed_options} \
    --no-pipeline-parallel"
fi
if [ "${activation_checkpoint}" = "true" ]; then
deepspeed_options="${deepspeed_options} \
    --deepspeed-activation-checkpointing"
fi
iteration=0
for (( node = 0; node <= num_node-1; node++ ))
do
    if $(ssh -q worker-"$node" "test -f file"); then
        iteration=$(( ${iteration} + 1 ))
    fi
done
deepspeed ${dir}/../../pretrain_gpt.py ${megatron_options} ${data_options} ${deepspeed_options} &>> ${jobname}_${current_time}.log

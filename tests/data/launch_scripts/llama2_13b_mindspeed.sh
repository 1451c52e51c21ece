# Source: Ascend/MindSpeed-LLM examples/llama2/pretrain_llama2_13B_ptd_8p.sh
export HCCL_CONNECT_TIMEOUT=1200
source /usr/local/Ascend/ascend-toolkit/set_env.sh
NNODES=1
NODE_RANK=0
NPUS_PER_NODE=8
WORLD_SIZE=$(($NPUS_PER_NODE*$NNODES))
DATA_PATH=./dataset/llama_text_document
DISTRIBUTED_ARGS="--nproc_per_node $NPUS_PER_NODE --nnodes $NNODES --node_rank $NODE_RANK --master_addr localhost --master_port 6000"
python -m torch.distributed.launch $DISTRIBUTED_ARGS \
       pretrain_llama.py \
       --DDP-impl local \
       --tensor-model-parallel-size 8 \
       --pipeline-model-parallel-size 1 \
       --sequence-parallel \
       --num-layers 40 --hidden-size 5120 --position-embedding-type rope --normalization RMSNorm \
       --ffn-hidden-size 13824 --num-attention-heads 40 --micro-batch-size 2 \
       --global-batch-size 256 --seq-length 4096 --max-position-embeddings 4096 \
       --train-iters 5000 --lr-warmup-iters 1000 --data-path $DATA_PATH \
       --tokenizer-name-or-path ./model --tokenizer-not-use-fast --data-impl mmap \
       --split 949,50,1 --distributed-backend nccl --lr 1e-6 --lr-decay-style cosine \
       --weight-decay 1e-1 --clip-grad 1.0 --initial-loss-scale 4096.0 --seed 1234 \
       --adam-beta1 0.9 --log-interval 1 --save-interval 1000 --eval-interval 1000 \
       --use-fused-rotary-pos-emb --use-flash-attn --use-fused-rmsnorm \
       --bf16 | tee logs/train_13B_llama2_npu.log

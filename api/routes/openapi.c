/* The API's own description, as it was built in. */
#include "api/handlers.h"

extern const unsigned char td_openapi_yaml[];
extern const unsigned int td_openapi_yaml_size;

int td_api_openapi_yaml(struct td_request *req, struct td_response *res)
{
    (void)req;
    res->status = 200;
    res->type = "application/yaml";
    res->body = td_openapi_yaml;
    res->size = td_openapi_yaml_size;
    return 0;
}
